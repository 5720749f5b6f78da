# shellcheck shell=bash
# How the scripts read their command lines. Needs say.sh.

# Reads a command line, which ends the script if it is wrong: read_arguments FLAGS OPTIONS ARGUMENT...
# FLAGS and OPTIONS are names with blanks between. A flag is handed to the script's read_flag NAME, an option to its
# read_option NAME VALUE. All scripts have --yes, which sets what setup.sh asks for, and --help, which calls usage.
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
