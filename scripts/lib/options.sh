# shellcheck shell=bash
# Command line parsing for the scripts. Needs say.sh.

# Reads a command line, which ends the script if it is wrong: read_arguments FLAGS OPTIONS ARGUMENT... FLAGS and OPTIONS
# are names separated by blanks. A flag is passed to the script's read_flag NAME, an option to its read_option NAME
# VALUE. All scripts have --yes, which sets assume_yes for setup.sh, and --help, which calls usage.
# shellcheck disable=SC2034 # assume_yes is read in setup.sh.
read_arguments() {
    local flags=" $1 " options=" $2 "
    shift 2
    while [ $# -gt 0 ]; do
        case "$1" in
        '' | *' '*) usage_error "unknown option '$1'" ;;
        --help | -h)
            usage
            exit
            ;;
        --yes) assume_yes=true ;;
        *)
            if [[ $flags == *" $1 "* ]]; then
                read_flag "$1"
            elif [[ $options == *" $1 "* ]]; then
                [ -n "${2:-}" ] || usage_error "$1 needs a value"
                read_option "$1" "$2"
                shift
            else
                usage_error "unknown option $1"
            fi
            ;;
        esac
        shift
    done
}
