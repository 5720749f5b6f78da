//! Confinement of a source process: the files that it may open, and the system calls that it may make.
//!
//! A source of an address, a file, a camera or the test scene may open what it names and what GStreamer needs. A `pipeline` may name any
//! file, so it may read all but [`SECRETS`]. None may write a file, start a program, or reach into another process.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;

use gstreamer as gst;
use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use crate::expansion::path_of;
use crate::{SourceChoice, SourceSpec};
use foveate_core::address::Server;
use foveate_core::source::{ShorthandKind, Tls};

/// Files and folders that every source process may read: libraries and their data, and what resolving a name and checking a certificate needs.
const SYSTEM: [&str; 33] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/proc",
    "/sys",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/drirc",
    "/etc/gai.conf",
    "/etc/gnutls",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/nv_tegra_release",
    "/etc/OpenCL",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/vulkan",
    "/run/systemd/resolve",
    "/run/udev/data",
];

/// Variables with further paths of libraries and certificates.
const SEARCH_PATHS: [&str; 6] = [
    "LD_LIBRARY_PATH",
    "GIO_MODULE_DIR",
    "GIO_EXTRA_MODULES",
    "LIBVA_DRIVERS_PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// Files and folders that no source process may read unless its source names them.
const SECRETS: [&str; 12] = [
    "/etc/foveate/conf.d",
    "/etc/foveate/credentials",
    "/etc/foveate/foveate.toml",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/pki/tls/private",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/run/credentials",
    "/run/secrets",
];

/// Beginnings of the names that decoders open in `/dev`: on any machine, of GPUs, and of the decoders of boards.
const DECODERS: [&str; 26] = [
    "null",
    "random",
    "urandom",
    "zero",
    "dri",
    "kfd",
    "mali",
    "nvidia",
    "dma_heap",
    "udmabuf",
    "video",
    "media",
    "v4l2-nv",
    "nvhost-",
    "nvmap",
    "nvgpu",
    "nvsciipc",
    "host1x-",
    "tegra",
    "vchiq",
    "vcsm",
    "rpivid",
    "mpp_service",
    "rga",
    "galcore",
    "hailo",
];

/// Names in `/dev` of folders with files, not devices.
const SHARED_MEMORY: [&str; 3] = ["hugepages", "mqueue", "shm"];

/// Files, devices and sockets that a source process may open.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reach {
    /// Files and folders that it may read.
    readable: Vec<PathBuf>,
    /// Devices that it may also write.
    devices: Vec<PathBuf>,
    sockets: Sockets,
}

/// The sockets that a source process may create. Those of the kernel (`AF_NETLINK`) are for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sockets {
    #[default]
    None,
    /// IPv4 and IPv6.
    Network,
    /// Network sockets, and sockets of other programs of the machine.
    All,
}

impl Reach {
    /// The reach that `spec` needs. GStreamer must have started, because it knows where its plugins are.
    fn of(spec: &SourceSpec) -> Self {
        let mut reach = Self::of_source(spec);
        let named = match (&spec.source, spec.kind()) {
            (SourceChoice::Shorthand(text), Some(ShorthandKind::File)) => path_of(text).ok(),
            (SourceChoice::PipelineFile(path), _) => Some(path.clone()),
            _ => None,
        };
        let authorities = match &spec.tls {
            Tls::CaFile(path) => Some(path.clone()),
            Tls::Verify | Tls::Insecure => None,
        };
        reach.readable.extend(SYSTEM.iter().map(PathBuf::from));
        reach.readable.extend(named.into_iter().chain(authorities));
        // For the names in a backtrace.
        reach.readable.extend(env::current_exe());
        let paths = SEARCH_PATHS.iter().filter_map(env::var_os);
        reach.readable.extend(paths.flat_map(|paths| env::split_paths(&paths).collect::<Vec<_>>()));
        reach.readable.extend(plugin_folders());
        reach.readable.retain(|path| path.has_root());
        reach
    }

    /// The part of the reach that depends on the kind of the source.
    fn of_source(spec: &SourceSpec) -> Self {
        let decoders = || listed(Path::new("/dev"), is_of_decoder);
        match spec.kind().filter(|_| !spec.follow_addresses) {
            Some(ShorthandKind::Test | ShorthandKind::File) => {
                Self { devices: decoders(), ..Self::default() }
            }
            Some(ShorthandKind::Camera) => {
                let camera = PathBuf::from(spec.source.text());
                Self {
                    devices: decoders().into_iter().chain([camera]).collect(),
                    ..Self::default()
                }
            }
            Some(ShorthandKind::Rtsp | ShorthandKind::Http) => {
                // Such a name is resolved by Avahi, which listens on a socket of its own.
                let is_local = Server::of(&spec.source.text())
                    .is_ok_and(|server| server.host.trim_end_matches('.').ends_with(".local"));
                let sockets = if is_local { Sockets::All } else { Sockets::Network };
                Self { devices: decoders(), sockets, ..Self::default() }
            }
            None => {
                let is_device = |name: &str| !SHARED_MEMORY.contains(&name);
                let devices = listed(Path::new("/dev"), is_device);
                let secrets = SECRETS.map(Path::new);
                let mut readable = Vec::new();
                add_all_but(&secrets, Path::new("/"), &mut readable);
                Self { readable, devices, sockets: Sockets::All }
            }
        }
    }
}

/// Adds `path`, or what is in it where that has one of `secrets`. Links need no right, and must not lead to a secret.
fn add_all_but(secrets: &[&Path], path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_symlink() || secrets.contains(&path) {
        return;
    }
    if !secrets.iter().any(|secret| secret.starts_with(path)) {
        found.push(path.to_owned());
        return;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.for_each(|entry| add_all_but(secrets, &entry.path(), found));
}

/// The entries of `folder` whose names are `wanted`.
fn listed(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_name().to_str().is_some_and(&wanted));
    entries.map(|entry| entry.path()).collect()
}

/// Whether a decoder may need the device of this name. A video device of the USB is a camera, and of another stream.
fn is_of_decoder(name: &str) -> bool {
    let is_usb = || {
        let device =
            fs::canonicalize(Path::new("/sys/class/video4linux").join(name).join("device"));
        device.is_ok_and(|device| {
            device.iter().any(|part| part.as_encoded_bytes().starts_with(b"usb"))
        })
    };
    DECODERS.iter().any(|decoder| name.starts_with(decoder))
        && !(name.starts_with("video") && is_usb())
}

/// The folders of GStreamer's plugins.
fn plugin_folders() -> Vec<PathBuf> {
    let plugins = gst::Registry::get().plugins();
    let files = plugins.iter().filter_map(gst::Plugin::filename);
    let mut folders: Vec<_> = files.filter_map(|file| Some(file.parent()?.to_owned())).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// The parts of a confinement that the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Version of Landlock, which keeps files from the process; `None` without it.
    pub landlock: Option<i32>,
    /// Whether a filter refuses system calls.
    pub has_filter: bool,
}

impl Confinement {
    /// The confinement that this kernel enforces: tried on a thread, which then ends.
    pub fn of_kernel() -> Self {
        let tried = thread::spawn(|| Self::of_thread(&Reach::default())).join();
        let tried = tried.ok().and_then(Result::ok);
        tried.unwrap_or(Self { landlock: None, has_filter: false })
    }

    /// Whether everything is enforced.
    pub fn is_complete(self) -> bool {
        self.landlock.is_some() && self.has_filter
    }

    /// Confines this thread, and those that it starts, for good.
    fn of_thread(reach: &Reach) -> io::Result<Self> {
        drop_capabilities()?;
        let landlock = restrict_files(reach).map_err(io::Error::other)?;
        // Fails if the kernel has no filters, or a container refuses them: the rest holds, and `foveate doctor` says so.
        Ok(Self { landlock, has_filter: refuse_calls(reach.sockets).is_ok() })
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.landlock {
            Some(version) => write!(f, "Landlock (ABI {version}), ")?,
            None => f.write_str("no Landlock, ")?,
        }
        f.write_str(if self.has_filter { "seccomp" } else { "no seccomp" })
    }
}

/// Confines this thread, and those that it starts, to what `spec` needs, for good. GStreamer must have started before, because it may run its
/// plugin scanner and write its registry.
///
/// # Errors
///
/// If the kernel has Landlock and refuses these rules. What it does not have is left out.
pub fn confine(spec: &SourceSpec) -> io::Result<Confinement> {
    Confinement::of_thread(&Reach::of(spec))
}

/// Drops the capabilities of a daemon that runs as root, but for reading files of other users, which its clips may be: some get round
/// Landlock, as `CAP_PERFMON` does to read variables of another process.
fn drop_capabilities() -> io::Result<()> {
    let present = capabilities(None)?.permitted;
    let permitted = present & CapabilitySet::DAC_READ_SEARCH;
    if present == permitted {
        // The filter of a service may refuse the call.
        return Ok(());
    }
    let inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: permitted, permitted, inheritable })?)
}

/// Keeps all files but those of `reach` from this thread. Returns the version of Landlock that does, if the kernel has one.
fn restrict_files(reach: &Reach) -> Result<Option<i32>, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let open = read | AccessFs::WriteFile | AccessFs::IoctlDev;
    // Rights that only newer kernels know stay allowed.
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(ABI::V5))?;
    rules = rules.scope(Scope::Signal)?;
    if reach.sockets != Sockets::All {
        rules = rules.scope(Scope::AbstractUnixSocket)?;
    }
    if reach.sockets == Sockets::None {
        rules = rules.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    let mut rules = rules.create()?;
    let readable = path_beneath_rules(&reach.readable, read);
    for rule in readable.chain(path_beneath_rules(&reach.devices, open)) {
        // Paths that do not exist, or are not in a file system, stay closed.
        let _ = (&mut rules).add_rule(rule?);
    }
    let RestrictionStatus { ruleset, landlock, .. } = rules.restrict_self()?;
    Ok(match (ruleset, landlock) {
        (RulesetStatus::NotEnforced, _) => None,
        (_, LandlockStatus::Available { effective_abi, kernel_abi }) => {
            Some(kernel_abi.unwrap_or(effective_abi as i32))
        }
        (_, LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) => None,
    })
}

// Newer ones, which `libc` does not name for each architecture. All have the same numbers.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;

/// System calls that are refused: those that start or control another process, change the machine, read memory of others, or do by another
/// way what is refused here.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    // What Landlock does not know, or only from Linux 6.2 on.
    libc::SYS_truncate,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    FCHMODAT2,
    SETXATTRAT,
    REMOVEXATTRAT,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
];

/// System calls that are refused where this argument is another process.
const OF_OTHER_PROCESSES: [(libc::c_long, u8); 7] = [
    (libc::SYS_kill, 0),
    (libc::SYS_tgkill, 0),
    (libc::SYS_rt_sigqueueinfo, 0),
    (libc::SYS_rt_tgsigqueueinfo, 0),
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
];

/// Refuses system calls of this thread from now on.
fn refuse_calls(sockets: Sockets) -> Result<(), seccompiler::Error> {
    let refused = program(refused_calls(sockets)?, libc::EPERM)?;
    // Its flags lie in memory, where a filter cannot look: the C library falls back to `clone`.
    let absent = program([(libc::SYS_clone3, Vec::new())].into(), libc::ENOSYS)?;
    seccompiler::apply_filter(&absent)?;
    seccompiler::apply_filter(&refused)
}

/// The refused calls, each with the conditions of which one must hold; without any it is always refused.
fn refused_calls(
    sockets: Sockets,
) -> Result<BTreeMap<libc::c_long, Vec<SeccompRule>>, BackendError> {
    let mut refused: BTreeMap<_, _> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let own = u64::from(process::id());
    for (call, argument) in OF_OTHER_PROCESSES {
        // 0 is the caller, but all processes of the group for `kill`.
        let is_own = if call == libc::SYS_kill { vec![own] } else { vec![own, 0] };
        refused.insert(call, vec![none_of(argument, &is_own)?]);
    }
    let thread = libc::CLONE_THREAD.cast_unsigned().into();
    let is_process =
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(thread), 0)?;
    refused.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_process])?]);
    let families: &[libc::c_int] = match sockets {
        Sockets::None => &[libc::AF_NETLINK],
        Sockets::Network => &[libc::AF_NETLINK, libc::AF_INET, libc::AF_INET6],
        Sockets::All => return Ok(refused),
    };
    let families: Vec<_> = families.iter().map(|family| family.cast_unsigned().into()).collect();
    refused.insert(libc::SYS_socket, vec![none_of(0, &families)?]);
    Ok(refused)
}

/// Rule that a 32-bit argument is outside `values`.
fn none_of(argument: u8, values: &[u64]) -> Result<SeccompRule, BackendError> {
    let differs = |value: &u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, *value)
    };
    SeccompRule::new(values.iter().map(differs).collect::<Result<_, _>>()?)
}

/// A filter that refuses `calls` with `error`.
fn program(
    calls: BTreeMap<libc::c_long, Vec<SeccompRule>>,
    error: libc::c_int,
) -> Result<BpfProgram, BackendError> {
    let refuse = SeccompAction::Errno(error.cast_unsigned());
    let architecture = TargetArch::try_from(env::consts::ARCH)?;
    SeccompFilter::new(calls, SeccompAction::Allow, refuse, architecture)?.try_into()
}
