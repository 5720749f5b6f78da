//! Check of what confines source processes.

use super::{Finding, Mark};
use foveate_capture::process::Confinement;

const SUBJECT: &str = "source processes";

/// What the kernel enforces for streams with `isolation = "process"`.
pub(super) fn finding() -> Finding {
    found(Confinement::of_kernel())
}

fn found(kernel: Confinement) -> Finding {
    let (lack, remedy) = match kernel {
        Confinement { landlock: Some(_), has_filter: true } => {
            return Finding::ok(SUBJECT, format!("{kernel}, no new privileges"));
        }
        Confinement { landlock: None, .. } => (
            "they can read and write what the daemon can",
            "use Linux 5.13 or later with `landlock` among the names of /sys/kernel/security/lsm, and allow its system calls in the \
             container or unit",
        ),
        Confinement { has_filter: false, .. } => (
            "they can start programs and open sockets",
            "use a kernel with CONFIG_SECCOMP_FILTER, and allow the system call seccomp in the container or unit",
        ),
    };
    Finding::bad(Mark::Warn, SUBJECT, format!("{kernel}: {lack}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lacks_is_a_warning_with_a_remedy() {
        let found = |landlock, has_filter| found(Confinement { landlock, has_filter });
        assert_eq!(
            found(Some(7), true),
            Finding::ok(SUBJECT, "Landlock (ABI 7), seccomp, no new privileges")
        );
        for (landlock, has_filter, lack) in [
            (None, true, "no Landlock"),
            (Some(7), false, "no seccomp"),
            (None, false, "no seccomp"),
        ] {
            let Finding { mark, detail, remedy, .. } = found(landlock, has_filter);
            assert_eq!(mark, Mark::Warn);
            assert!(detail.contains(lack) && remedy.is_some(), "{detail}");
        }
    }
}
