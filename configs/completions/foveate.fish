# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_foveate_global_optspecs
    string join \n socket= h/help V/version
end

function __fish_foveate_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_foveate_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_foveate_using_subcommand
    set -l cmd (__fish_foveate_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c foveate -n "__fish_foveate_needs_command" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_needs_command" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_needs_command" -s V -l version -d 'Print version'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "ls" -d 'List the streams and views of the daemon'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "watch" -d 'Show all streams and views live, or the token frames of one view as they arrive'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "wait" -d 'Wait until a view publishes frames'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "health" -d 'Check that every stream is live and fresh'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "look" -d 'Make a view look at a point of the picture'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "attend" -d 'Make a view look at the peak of an attention map'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "inject" -d 'Give a view a channel: a map by name, for its scorer'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "weigh" -d 'Set what channels add to the score of a view'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "release" -d 'Return a view to its policy'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "events" -d 'Print events as they happen: a cut, a covered camera, something new, a camera lost or back'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "record" -d 'Record a view: where it looks, or all that it publishes'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "replay" -d 'Publish a recording again, as the daemon published it'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "trace" -d 'Record where a view looks, as a CSV table'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "snap" -d 'Draw a view\'s newest token frame'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "add-stream" -d 'Add a stream to the running daemon'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "remove-stream" -d 'Remove a stream from the running daemon'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "set" -d 'Change a view of the running daemon'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "mask" -d 'Show or change the privacy masks of a stream'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "reload" -d 'Make the daemon reload its configuration'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "demo" -d 'Take a first look: a daemon of its own and the live page, until Ctrl-C'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "web" -d 'Show the streams, or a recording, in a browser: what the daemon sees, where it looks, and its cost'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "doctor" -d 'Check this machine, its daemon and its cameras, or sources by their addresses'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "bench" -d 'Measure the cost of a frame, stage by stage, without a daemon'
complete -c foveate -n "__fish_foveate_needs_command" -f -a "extract" -d 'Convert every frame of a file to NumPy arrays, without a daemon'
complete -c foveate -n "__fish_foveate_using_subcommand ls" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand ls" -s v -l verbose -d 'Show all details of each stream and view'
complete -c foveate -n "__fish_foveate_using_subcommand ls" -l json -d 'Print one JSON object instead of a table'
complete -c foveate -n "__fish_foveate_using_subcommand ls" -l names -d 'Print only the names of streams and views, one a line'
complete -c foveate -n "__fish_foveate_using_subcommand ls" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand watch" -l frames -d 'Stop after this many token frames' -r
complete -c foveate -n "__fish_foveate_using_subcommand watch" -l seconds -d 'Stop after this many seconds' -r
complete -c foveate -n "__fish_foveate_using_subcommand watch" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand watch" -l json -d 'Print one JSON object on a line for each token frame, or without a view every second; a summary goes to standard error'
complete -c foveate -n "__fish_foveate_using_subcommand watch" -l reconnect -d 'Wait for the daemon if it is not running or stops, then continue'
complete -c foveate -n "__fish_foveate_using_subcommand watch" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand wait" -l timeout -d 'Longest wait, for the daemon as well' -r
complete -c foveate -n "__fish_foveate_using_subcommand wait" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand wait" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand health" -l max-age -d 'Largest age of a stream\'s newest frame, in seconds [default: none while the daemon calls the stream live, and its frames arrive within 2 s of their capture]' -r
complete -c foveate -n "__fish_foveate_using_subcommand health" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand health" -l json -d 'Print one JSON object, with every stream'
complete -c foveate -n "__fish_foveate_using_subcommand health" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand look" -l box -d 'Look at a box instead, sharp throughout as far as the budget allows' -r
complete -c foveate -n "__fish_foveate_using_subcommand look" -l share -d 'Share of the budget for the target, above 0 and up to 1 [default: as the layout says]' -r
complete -c foveate -n "__fish_foveate_using_subcommand look" -l for -d 'Return to the policy after this time [default: at the next command; with a policy other than "fixed" also after its silence_ms]' -r
complete -c foveate -n "__fish_foveate_using_subcommand look" -l frame -d 'Number of the frame that the points refer to; motion since then moves them along [default: the frame to come]' -r
complete -c foveate -n "__fish_foveate_using_subcommand look" -l homography -d 'Camera motion since --frame, instead of the measured one: a homography from old to new pixels, 9 numbers row by row' -r
complete -c foveate -n "__fish_foveate_using_subcommand look" -l rotation -d 'Rotation of a calibrated camera since --frame: a quaternion from its old to its new optical frame' -r
complete -c foveate -n "__fish_foveate_using_subcommand look" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand look" -l normalised -d 'Read points and boxes as shares of the picture\'s width and height, 0 to 1'
complete -c foveate -n "__fish_foveate_using_subcommand look" -l wait -d 'Wait for a frame with the new fixations, and print them'
complete -c foveate -n "__fish_foveate_using_subcommand look" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand attend" -l box -d 'The area that the map covers, in pixels of the picture [default: the picture]' -r
complete -c foveate -n "__fish_foveate_using_subcommand attend" -l frame -d 'Number of the frame that the map was computed on [default: the newest]' -r
complete -c foveate -n "__fish_foveate_using_subcommand attend" -l homography -d 'Camera motion since --frame, instead of the measured one: a homography from old to new pixels, 9 numbers row by row' -r
complete -c foveate -n "__fish_foveate_using_subcommand attend" -l rotation -d 'Rotation of a calibrated camera since --frame: a quaternion from its old to its new optical frame' -r
complete -c foveate -n "__fish_foveate_using_subcommand attend" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand attend" -l wait -d 'Wait for the decision, and print the fixation'
complete -c foveate -n "__fish_foveate_using_subcommand attend" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand inject" -l box -d 'The area that the map covers, in pixels of the picture [default: the picture]' -r
complete -c foveate -n "__fish_foveate_using_subcommand inject" -l frame -d 'Number of the frame that the map was made from [default: the newest]' -r
complete -c foveate -n "__fish_foveate_using_subcommand inject" -l ttl-ms -d 'Keep the map for this time after that frame, then withdraw it and exit, in milliseconds, 1 to 60000' -r
complete -c foveate -n "__fish_foveate_using_subcommand inject" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand inject" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand weigh" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand weigh" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand release" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand release" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand events" -l seconds -d 'Stop after this many seconds [default: at the end of the view, or a signal]' -r
complete -c foveate -n "__fish_foveate_using_subcommand events" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand events" -l json -d 'Print one JSON object on a line for each event'
complete -c foveate -n "__fish_foveate_using_subcommand events" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand record" -l mcap -d 'The MCAP file to write: token frames, gaze, events, and pictures for Foxglove and Rerun; `foveate replay` publishes it again' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand record" -l pictures-hz -d 'Pictures a second in the MCAP file, 0 to 1000: each takes time to rebuild' -r
complete -c foveate -n "__fish_foveate_using_subcommand record" -l rotate-size -d 'Continue in another file, FILE-0001.mcap and so on, before a file exceeds this size: bytes, or with KiB, MiB or GiB' -r
complete -c foveate -n "__fish_foveate_using_subcommand record" -l rotate-seconds -d 'Continue in another file after this many seconds' -r
complete -c foveate -n "__fish_foveate_using_subcommand record" -l out -d 'The gaze log to write; a view with `policy = "replay"` follows it' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand record" -l seconds -d 'Stop after this many seconds [default: at the end of the view, or a signal]' -r
complete -c foveate -n "__fish_foveate_using_subcommand record" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand record" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand replay" -l stream -d 'Name of the stream [default: as recorded]' -r
complete -c foveate -n "__fish_foveate_using_subcommand replay" -l speed -d 'Pace, as a multiple of the recorded one, 0.01 to 100' -r
complete -c foveate -n "__fish_foveate_using_subcommand replay" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand replay" -l fast -d 'Publish as fast as the readers that wait in the ring take the frames'
complete -c foveate -n "__fish_foveate_using_subcommand replay" -l at-once -d 'Start at once [default: with the first reader]'
complete -c foveate -n "__fish_foveate_using_subcommand replay" -l now -d 'Shift all times of a frame to the present, so that its age is as recorded'
complete -c foveate -n "__fish_foveate_using_subcommand replay" -l loop -d 'Start again after the end, in a new segment, until a signal'
complete -c foveate -n "__fish_foveate_using_subcommand replay" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand trace" -l out -d 'The CSV file to write [default: standard output]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand trace" -l seconds -d 'Stop after this many seconds [default: at the end of the view, or a signal]' -r
complete -c foveate -n "__fish_foveate_using_subcommand trace" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand trace" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand snap" -l out -d 'Directory for rebuilt.png, boxes.png, density.png, scanpath.png, and a picture channel-NAME.png of each channel that the view publishes; created if missing' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand snap" -l canvas -d 'Read so many frames, and draw canvas.png of them too: of each place the finest texels so far. Of a view with memory = "canvas"' -r
complete -c foveate -n "__fish_foveate_using_subcommand snap" -l timeout -d 'Longest wait for a frame, in seconds' -r
complete -c foveate -n "__fish_foveate_using_subcommand snap" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand snap" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand add-stream" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand add-stream" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand remove-stream" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand remove-stream" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand set" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand set" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand mask" -l box -d 'A rectangle instead: two opposite corners' -r
complete -c foveate -n "__fish_foveate_using_subcommand mask" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand mask" -l clear -d 'Clear the mask NAME, or without NAME all masks set at run time'
complete -c foveate -n "__fish_foveate_using_subcommand mask" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand reload" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand reload" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand demo" -l listen -d 'Serve the page at this address; port 0 takes any free port' -r
complete -c foveate -n "__fish_foveate_using_subcommand demo" -l socket -r -F
complete -c foveate -n "__fish_foveate_using_subcommand demo" -l no-open -d 'Do not open the page in the browser of this desktop'
complete -c foveate -n "__fish_foveate_using_subcommand demo" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand web" -l listen -d 'Serve the page at this address; port 0 takes any free port' -r
complete -c foveate -n "__fish_foveate_using_subcommand web" -l allow-host -d 'A host name of this machine that browsers may use besides localhost; may be repeated' -r
complete -c foveate -n "__fish_foveate_using_subcommand web" -l history -d 'Memory for the last minute of the shown views: bytes, or with KiB, MiB or GiB; beyond it, older frames are thinned out; 0 keeps no frames' -r
complete -c foveate -n "__fish_foveate_using_subcommand web" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand web" -l open -d 'Open the page in the browser of this desktop'
complete -c foveate -n "__fish_foveate_using_subcommand web" -l anywhere -d 'Allow an address that other machines can reach: anyone who can connect sees the pictures and may steer the views'
complete -c foveate -n "__fish_foveate_using_subcommand web" -l read-only -d 'Do not let pages steer views'
complete -c foveate -n "__fish_foveate_using_subcommand web" -l token -d 'Require a random token, which is printed as a part of the address at each start'
complete -c foveate -n "__fish_foveate_using_subcommand web" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand doctor" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l size -d 'Size of the frames [default: 1920x1080]' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l format -d 'Format of the frames [default: NV12]' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l changed -d 'Share of the tiles that changes from frame to frame, 0 to 1 [default: 0.1]' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l clip -d 'Play a file instead: .y4m, raw samples such as .nv12 with --size, or anything that GStreamer plays' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l backend -d 'Backend to measure; `all` skips unavailable ones with a message' -r -f -a "cpu\t''
vulkan\t''
all\t''"
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l device -d 'Part of the name of the Vulkan device, such as llvmpipe' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l instructions -d 'Vector instructions of the stages on the CPU, of those that this processor has [default: the widest]' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l layout -d 'Arrangement of the tokens over the image' -r -f -a "adaptive\t''
foveal\t''
inset\t''
uniform\t''
directional\t''
stt172\t''
giava20\t''
windows\t''"
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l foveae -d 'Fixations at a time of the layout foveal, 1 to 8' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l budget -d 'Most tokens of a view, 1 to 5000' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l views -d 'Number of views, 1 to 32: the first looks at the centre, the others elsewhere' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l policy -d 'Gaze policy of the views, as in a configuration [default: the default of configurations, and fixed]' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l dtype -d 'Number format of the tokens: u8, f16, bf16 or f32' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l patch -d 'Side of a token in texels, even: 8 to 64, or 224 to 1024 of windows' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l threshold -d 'Differences of samples above this count as a change, 0 to 255' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l refresh -d 'Refresh every tile within this many frames; 1 rebuilds everything in each frame' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l change-on -d 'Find changes on the CPU (cpu) or the device (gpu), which must share the CPU\'s memory; auto means gpu on integrated GPUs' -r -f -a "auto\t''
cpu\t''
gpu\t''"
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l frames -d 'Frames to measure, 1 to 100000, after some warm-up frames; also the number read from a clip' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l batch -d 'Measure batches of this many pictures instead, 1 to 256' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l sink -d 'Destination of token frames' -r -f -a "ring\t'Rings in shared memory, as in the daemon'
memory\t'Memory of this process, as for users of the engine'"
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l dump -d 'Instead of measuring, write the frames, the token plan and the tokens of one frame to this directory' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l features -d 'Compute the features of tiles; same as `--policy relevance`'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l cold -d 'Empty the caches before each frame'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l json -d 'Print a line of JSON for each backend'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -l each-line -d 'Measure once for each line of standard input, to alternate with another program'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -f -a "link" -d 'Measure the rates between the CPU\'s memory and a Vulkan device'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -f -a "ring" -d 'Measure the latency of token frames through the ring to readers in other processes'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and not __fish_seen_subcommand_from link ring ring-reader" -f -a "ring-reader" -d 'Run as one of these readers'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from link" -l device -d 'Part of the name of the Vulkan device, such as llvmpipe [default: a GPU]' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from link" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from link" -l json -d 'Print JSON'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from link" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring" -l payload -d 'Bytes of texels per frame, 1536 to 16777216, rounded down to whole tokens of 1536 bytes' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring" -l readers -d 'Reader processes, 0 to 64' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring" -l stopped -d 'Additional reader processes that are stopped (SIGSTOP) once they follow, 0 to 64' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring" -l slots -d 'Slots of the ring, 2 to 64 [default: as of a view with such frames]' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring" -l how -d 'Way in which the readers wait [default: measure each way]' -r -f -a "futex\t'Sleep on the futex word'
notice\t'Poll the socket for the daemon\'s notice of each frame'
spin\t'Busy-wait'"
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring" -l frames -d 'Frames to measure, 1 to 1000000, after 50 warm-up frames' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring" -l interval-us -d 'Time from frame to frame, 0 to 1000000; 0 means as fast as possible' -r
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring" -l json -d 'Print a line of JSON for each way of waiting'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring-reader" -l how -d 'Way of waiting' -r -f -a "futex\t'Sleep on the futex word'
notice\t'Poll the socket for the daemon\'s notice of each frame'
spin\t'Busy-wait'"
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring-reader" -l socket -d 'The daemon\'s socket [default: $FOVEATE_SOCKET, else the first foveate.sock that exists in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate and /run/foveate]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand bench; and __fish_seen_subcommand_from ring-reader" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l pipeline -d 'Play this gst-launch description instead; it ends in `appsink name=frames`' -r
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l config -d 'Use the views, the backend, `max_fps`, `orientation`, `corrupted`, `track`, `interlaced`, `range`, `matrix` and `gray_range` of this file\'s first stream; each view gets every frame, whatever its `max_fps` and `publish` [default: view `main` with the daemon\'s defaults]' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l frames -d 'Stop after this many frames' -r
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l start -d 'Leave out the frames before this time of the clip; they are decoded, and keep their numbers' -r
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l unreadable -d 'Handling of unreadable files in a folder: `skip` lists them in pictures.json, `refuse` stops at the first' -r -f -a "skip\t''
refuse\t''"
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l max-pixels -d 'Most pixels of a picture in a folder; a larger one is an error of that file [default: 128000000, or `max_pixels` of the configuration]' -r
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l background -d 'Colour behind transparent pixels, each 0 to 255 [default: 0,0,0, which is black, or `background` of the configuration]' -r
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l gray-range -d 'Samples of 16-bit gray that become black and white, or `auto` for those of the first frame, or of each picture of a folder; segments.json and pictures.json have them [default: 0,65535, or `gray_range` of the configuration]' -r
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l out -d 'Directory for the arrays, one folder for each view: frames.npy, tokens.npy, and one for each plane, pixels.npy and relevance.npy; created if missing. For a folder of pictures also pictures.json' -r -F
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l socket -r -F
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l sequence -d 'Play the pictures of a folder, which must have one size, as a clip, one a second, each compared with the one before; otherwise each picture is sampled alone, and may have any size'
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l scale -d 'Scale the pictures of a sequence to the size of the first; otherwise a picture of another size is an error'
complete -c foveate -n "__fish_foveate_using_subcommand extract" -l force -d 'Replace the arrays of an earlier extraction; without it, existing arrays are an error'
complete -c foveate -n "__fish_foveate_using_subcommand extract" -s h -l help -d 'Print help'
complete -c foveate -n "__fish_foveate_using_subcommand ls" -f -a "(foveate ls --names 2>/dev/null)"
complete -c foveate -n "__fish_foveate_using_subcommand watch" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand wait" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand look" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand attend" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand inject" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand weigh" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand release" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand events" -f -a "(foveate ls --names 2>/dev/null)"
complete -c foveate -n "__fish_foveate_using_subcommand record" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand trace" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand snap" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand remove-stream" -f -a "(foveate ls --names 2>/dev/null | grep -v /)"
complete -c foveate -n "__fish_foveate_using_subcommand set" -f -a "(foveate ls --names 2>/dev/null | grep /)"
complete -c foveate -n "__fish_foveate_using_subcommand mask" -f -a "(foveate ls --names 2>/dev/null | grep -v /)"
