//! What manual pages have beyond the command line: examples, files, references, and the page of the configuration.

use std::fmt::Write;

/// An example of each page, and what it does.
pub(crate) const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "foveate.1",
        &[
            ("foveate ls", "List streams and views"),
            ("foveate watch front/robot", "Follow the frames of a view"),
            ("foveate look front/robot 320 240 --for 500", "Look there for half a second"),
            ("foveate snap front/robot --out pictures", "Draw the newest frame"),
        ],
    ),
    (
        "foveated.8",
        &[
            ("foveated", "Show the test scene as camera/main"),
            (
                "foveated --config /etc/foveate/foveate.toml --check",
                "Report every mistake of a file",
            ),
        ],
    ),
    ("foveate-ls.1", &[("foveate ls --json", "List everything for a program")]),
    (
        "foveate-watch.1",
        &[
            ("foveate watch", "A live table of all views"),
            ("foveate watch front/robot --frames 10 --json", "Ten frames, one JSON object a line"),
        ],
    ),
    ("foveate-wait.1", &[("foveate wait front/robot", "Return once it publishes")]),
    ("foveate-health.1", &[("foveate health --max-age 1", "Fail if a frame is older than 1 s")]),
    (
        "foveate-look.1",
        &[
            ("foveate look front/robot 320 240 --for 500", "A point, for half a second"),
            ("foveate look front/robot --box 120,200,520,240", "A box, such as a line of text"),
        ],
    ),
    (
        "foveate-attend.1",
        &[("foveate attend front/robot map.npy --frame 812", "A map that was made from frame 812")],
    ),
    (
        "foveate-inject.1",
        &[("foveate inject front/robot depth depth.npy", "A map by name, for one second")],
    ),
    (
        "foveate-weigh.1",
        &[("foveate weigh front/robot depth=1 edges=-0.2", "Near things, rather than edges")],
    ),
    ("foveate-release.1", &[("foveate release front/robot", "Back to the policy")]),
    ("foveate-events.1", &[("foveate events front --json", "Events as JSON, one a line")]),
    (
        "foveate-record.1",
        &[
            ("foveate record front/robot --mcap run.mcap", "All that it publishes, until Ctrl-C"),
            ("foveate record front/robot --out gaze.log", "Where it looks"),
        ],
    ),
    ("foveate-replay.1", &[("foveate replay run.mcap --loop", "The recording, again and again")]),
    ("foveate-trace.1", &[("foveate trace front/robot --out gaze.csv", "Every fixation as CSV")]),
    (
        "foveate-snap.1",
        &[
            ("foveate snap front/robot --out pictures", "Draw the newest frame"),
            (
                "foveate snap front/detail --out pictures --canvas 30",
                "Draw the canvas of 30 frames of a view with memory = \"canvas\"",
            ),
        ],
    ),
    ("foveate-add-stream.1", &[("foveate add-stream rear.toml", "Start the stream of a file")]),
    ("foveate-remove-stream.1", &[("foveate remove-stream rear", "End a stream")]),
    (
        "foveate-set.1",
        &[(
            "foveate set front/robot max_fps=10 gaze.policy=saliency",
            "Change two keys until the next reload",
        )],
    ),
    (
        "foveate-mask.1",
        &[
            ("foveate mask front face --box 0.4,0.2,0.5,0.4", "Set a mask"),
            ("foveate mask front face --clear", "Lift it"),
        ],
    ),
    ("foveate-reload.1", &[("foveate reload", "Read the configuration again")]),
    (
        "foveate-web.1",
        &[
            ("foveate web --token", "Serve the page to those who have the printed address"),
            ("foveate web run.mcap", "Show a recording"),
        ],
    ),
    (
        "foveate-demo.1",
        &[
            ("foveate demo", "A street that the program draws, and the page"),
            ("foveate demo street.mp4", "The same with a clip"),
        ],
    ),
    ("foveate-doctor.1", &[("foveate doctor", "Check this machine")]),
    (
        "foveate-bench.1",
        &[("foveate bench --size 3840x2160 --changed 0.3", "4K frames of which 30 % change")],
    ),
    ("foveate-bench-ring.1", &[("foveate bench ring --readers 16", "Sixteen readers")]),
    ("foveate-bench-ring-reader.1", &[]),
    ("foveate-bench-link.1", &[("foveate bench link", "Rates between memory and the GPU")]),
    (
        "foveate-extract.1",
        &[
            ("foveate extract clip.mp4 --out arrays", "Every frame of a clip"),
            ("foveate extract pictures --sequence --out arrays", "A folder as a clip"),
        ],
    ),
];

const FILES: &[(&str, &str)] = &[
    ("/etc/foveate/foveate.toml, /etc/foveate/conf.d/*.toml", "configuration of the service"),
    ("/run/foveate/foveate.sock", "control socket of the service"),
    ("/run/foveate/admin.sock", "control socket for operators"),
    ("/usr/share/doc/foveate", "guides, reference and reports"),
];

/// The sections that end the page `name`.
pub(crate) fn appendix(name: &str) -> String {
    let (_, examples) = EXAMPLES
        .iter()
        .find(|(page, _)| *page == name)
        .unwrap_or_else(|| panic!("{name} has no line in EXAMPLES of manual_texts.rs"));
    let mut text = String::new();
    section(&mut text, "EXAMPLES", examples);
    section(
        &mut text,
        "FILES",
        if matches!(name, "foveate.1" | "foveated.8") { FILES } else { &[] },
    );
    let others = [("foveate", '1'), ("foveated", '8'), ("foveate.toml", '5')];
    let others = others.iter().filter(|(other, section)| format!("{other}.{section}") != name);
    let others: Vec<_> =
        others.map(|(other, section)| format!("\\fB{}\\fR({section})", escaped(other))).collect();
    writeln!(text, ".SH \"SEE ALSO\"\n{}", others.join(", ")).unwrap();
    text
}

fn section(text: &mut String, title: &str, entries: &[(&str, &str)]) {
    if !entries.is_empty() {
        writeln!(text, ".SH {title}").unwrap();
    }
    for (term, meaning) in entries {
        writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(term), escaped(meaning)).unwrap();
    }
}

/// The page of the configuration, from the commented file with the defaults.
pub(crate) fn configuration(default: &str, source: &str) -> String {
    let mut page = format!(
        ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH foveate.toml 5  \"{source}\" Foveate\n.SH NAME\nfoveate.toml \\- \
         configuration of foveated\n.SH DESCRIPTION\n"
    );
    let mut entry = Entry::default();
    for line in default.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        if line.is_empty() {
            entry.write_to(&mut page);
        } else if bare.starts_with('[') && bare.ends_with(']') {
            writeln!(page, ".SH \"{}\"", escaped(bare)).unwrap();
            entry.write_to(&mut page);
        } else if is_key(bare) {
            entry.keys.push((bare, bare.len() < line.len()));
        } else {
            if !entry.keys.is_empty() {
                entry.write_to(&mut page);
            }
            entry.text.push(line.trim_start_matches('#').trim());
        }
    }
    entry.write_to(&mut page);
    let examples = ".SH EXAMPLES\n.nf\n[[stream]]\nname = \"front\"\nsource = \"/dev/video0\"\n\n[[stream.view]]\nname = \
                    \"policy\"\nbudget = 273\n.fi\n.SH FILES\n.TP\n/etc/foveate/foveate.toml\nof the service\n";
    page + &examples.replace('-', "\\-")
        + ".SH \"SEE ALSO\"\n\\fBfoveated\\fR(8), \\fBfoveate\\fR(1)\n"
}

/// Keys with their defaults, and the text before them.
#[derive(Default)]
struct Entry<'a> {
    text: Vec<&'a str>,
    /// Whether the value is an example, of a key that is commented out.
    keys: Vec<(&'a str, bool)>,
}

impl Entry<'_> {
    fn write_to(&mut self, page: &mut String) {
        for (index, (key, is_example)) in self.keys.iter().enumerate() {
            let request = if index == 0 { ".TP" } else { ".TQ" };
            let note = if *is_example { " (example)" } else { "" };
            writeln!(page, "{request}\n\\fB{}\\fR{note}", escaped(key)).unwrap();
        }
        if !self.text.is_empty() {
            let text = escaped(&self.text.join(" "));
            writeln!(page, "{}{text}", if self.keys.is_empty() { ".PP\n" } else { "" }).unwrap();
        }
        *self = Self::default();
    }
}

fn is_key(line: &str) -> bool {
    line.split_once(" = ").is_some_and(|(name, _)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    })
}

/// The text with roff's special characters escaped.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\*(Aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}
