complete -c foveated -l config -d 'The configuration [default: the test scene as stream `camera`, view `main`]' -r -F
complete -c foveated -l config-dir -d 'More streams: every *.toml in this directory, ordered by name' -r -F
complete -c foveated -l socket -d 'Path of the control socket [default: the configuration\'s, else $FOVEATE_SOCKET, else foveate.sock in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/foveate or /run/foveate]' -r -F
complete -c foveated -l check -d 'Check the configuration, and exit'
complete -c foveated -s h -l help -d 'Print help'
complete -c foveated -s V -l version -d 'Print version'
