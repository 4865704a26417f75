//! The filter of system calls (seccomp): which ones a confined program is refused, with `EPERM`, or with `ENOSYS` where the C
//! library then takes an older call that the filter can judge.
//!
//! Refused are the sockets that the [`Network`] forbids, because Landlock does not know most kinds; ways round the filter and round
//! Landlock (`io_uring`, namespaces, mounts, handles of files, and before Landlock's version 3 each way to cut a file that is not
//! open for writing); keys of the user and limits of other processes; and much of what reaches the whole machine where the user is
//! root (whose rights `linux.rs` lays down first, so that list is the second wall).
//!
//! On x86-64 each refused call is refused under its second number (x32) too. A program that makes 32-bit system calls is killed.
//! Not refused: `ptrace` and its kin, because Landlock keeps them inside of the sandbox, where a debugger is of use.
//!
//! A change must not remove a call from the list if Landlock cannot confine it. Any other call is allowed, so a new kind of
//! system call that bypasses Landlock must be added.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use crate::words::sandbox::Network;

/// The conditions under which each system call is refused; without one, always.
type Refused = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused with any arguments. Those with a plain number have it on every machine, unless it says otherwise.
const NEVER: &[i64] = &[
    // io_uring_setup, io_uring_enter, io_uring_register: they make sockets that no filter sees.
    425,
    426,
    427,
    // open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, open_tree_attr: the mounts stay as they are.
    428,
    429,
    430,
    431,
    432,
    433,
    442,
    467,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    // quotactl_fd
    443,
    libc::SYS_setns,
    // Files without a path, by which Landlock could know them.
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Keys of the user that the kernel holds.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    // The name and the clock of the machine.
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    // kexec_load, which has its own number in x32.
    #[cfg(target_arch = "x86_64")]
    528,
];

/// The flags of `clone` and `unshare` that make namespaces: mount, cgroup, names, IPC, user, processes, network.
const NAMESPACES: &[u64] = &[0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];
/// The flag of `unshare` that makes a namespace of the clock; in `clone` its bit is a signal's.
const NAMESPACE_OF_TIME: u64 = 0x80;
/// Their flags lie in memory, where a filter cannot look.
const CLONE3: i64 = 435;
const OPENAT2: i64 = 437;
const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
/// The bit of a system call in the second form of x86-64.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Refuses system calls to the calling thread and all that it starts. `with_truncate`: also what cuts a file that is not open for
/// writing, where Landlock does not.
pub(super) fn refuse(network: Network, with_truncate: bool) -> Result<(), String> {
    let put_up = || -> Result<(), seccompiler::Error> {
        apply_filter(&filter(refused(network, with_truncate)?, libc::EPERM)?)?;
        // With `ENOSYS` the C library takes `clone` and `openat`, whose flags can be seen. And programs that watch files look at
        // them from time to time: `inotify` would tell of every folder that the user may read, because Landlock does not know it.
        let unseen = [CLONE3, libc::SYS_inotify_init1].into_iter().chain(with_truncate.then_some(OPENAT2));
        #[cfg(target_arch = "x86_64")]
        let unseen = unseen.chain([libc::SYS_inotify_init]);
        apply_filter(&filter(in_each_form(unseen.map(|number| (number, Vec::new())).collect()), libc::ENOSYS)?)
    };
    put_up().map_err(|error| format!("seccomp: {error}"))
}

fn refused(network: Network, with_truncate: bool) -> Result<Refused, seccompiler::BackendError> {
    let mut refused: Refused = NEVER.iter().map(|number| (*number, Vec::new())).collect();
    let flag = |flag: u64| SeccompRule::new(vec![word(0, SeccompCmpOp::MaskedEq(flag), flag)?]);
    refused.insert(libc::SYS_clone, NAMESPACES.iter().copied().map(flag).collect::<Result<_, _>>()?);
    let unshared = NAMESPACES.iter().copied().chain([NAMESPACE_OF_TIME]);
    refused.insert(libc::SYS_unshare, unshared.map(flag).collect::<Result<_, _>>()?);
    // The limits of other processes, the host among them. The third argument is the new limit.
    let others = SeccompRule::new(vec![word(0, SeccompCmpOp::Ne, 0)?, pointer(2, SeccompCmpOp::Ne, 0)?])?;
    refused.insert(libc::SYS_prlimit64, vec![others]);
    if with_truncate {
        refused.insert(libc::SYS_truncate, Vec::new());
        refused.insert(libc::SYS_openat, cut_while_not_writing(2)?);
        #[cfg(target_arch = "x86_64")]
        refused.insert(libc::SYS_open, cut_while_not_writing(1)?);
    }
    if network != Network::All {
        refused.insert(libc::SYS_socketpair, unconnected()?);
    }
    match network {
        Network::Off => drop(refused.insert(libc::SYS_socket, Vec::new())),
        Network::Ip => {
            let families = [AF_INET, AF_INET6, AF_NETLINK].map(|family| word(0, SeccompCmpOp::Ne, family));
            let is_other = SeccompRule::new(families.into_iter().collect::<Result<_, _>>()?)?;
            // Of netlink only protocol 0: the list of interfaces, which the C library reads.
            let netlink = vec![word(0, SeccompCmpOp::Eq, AF_NETLINK)?, word(2, SeccompCmpOp::Ne, 0)?];
            refused.insert(libc::SYS_socket, vec![is_other, SeccompRule::new(netlink)?]);
        }
        Network::All => {}
    }
    Ok(in_each_form(refused))
}

/// When an open cuts a file that it does not open for writing. The argument holds the flags.
fn cut_while_not_writing(argument: u8) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let bits = |flags: i32| u64::from(flags.unsigned_abs());
    let (mode, cut) = (bits(libc::O_ACCMODE), bits(libc::O_TRUNC));
    let is = |flags: u64| SeccompRule::new(vec![word(argument, SeccompCmpOp::MaskedEq(mode | cut), flags)?]);
    // For reading, and for neither.
    [cut | bits(libc::O_RDONLY), cut | mode].into_iter().map(is).collect()
}

/// When a pair of sockets is more than a pipe: of another family, or of a kind that can send to others than the other end.
fn unconnected() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    const KIND: u64 = 0xf;
    let connected = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].map(|kind| u64::from(kind.unsigned_abs()));
    let others = (0..=KIND).filter(|kind| !connected.contains(kind));
    let is = |kind: u64| word(1, SeccompCmpOp::MaskedEq(KIND), kind);
    let family = word(0, SeccompCmpOp::Ne, AF_UNIX);
    std::iter::once(family).chain(others.map(is)).map(|is| SeccompRule::new(vec![is?])).collect()
}

/// The same, in each form in which a program may make a system call.
fn in_each_form(refused: Refused) -> Refused {
    #[cfg(target_arch = "x86_64")]
    let refused =
        refused.into_iter().flat_map(|(number, rules)| [(number | X32, rules.clone()), (number, rules)]).collect();
    refused
}

/// A condition on an argument of which the kernel takes 32 bits.
fn word(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value)
}

/// A condition on an argument that is a pointer.
fn pointer(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, is, value)
}

fn filter(refused: Refused, error: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    // An error number is small and not negative.
    let answer = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(refused, SeccompAction::Allow, answer, machine)?.try_into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        fs::{self, OpenOptions},
        io::ErrorKind,
        os::unix::{
            fs::OpenOptionsExt as _,
            net::{UnixDatagram, UnixStream},
        },
        thread,
    };

    use super::*;

    /// What is tried on a thread that the filter holds; the filter ends with the thread.
    fn within<T: Send>(network: Network, with_truncate: bool, tries: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let held = scope.spawn(|| {
                refuse(network, with_truncate).unwrap();
                tries()
            });
            held.join().unwrap()
        })
    }

    /// An unconnected pair sends to any named socket, so it is not private to the program.
    #[test]
    fn a_pair_of_sockets_is_a_pipe_or_refused() {
        for (network, expected) in [(Network::Off, false), (Network::Ip, false), (Network::All, true)] {
            let (datagrams, streams) = within(network, false, || (UnixDatagram::pair(), UnixStream::pair()));
            assert!(streams.is_ok(), "{network:?}");
            assert_eq!(datagrams.map_err(|error| error.kind()).is_ok(), expected, "{network:?}");
        }
    }

    /// If Landlock cannot refuse to truncate a file, no open truncates one that it does not open for writing.
    #[test]
    fn a_file_that_is_not_open_for_writing_is_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        let cuts = |with_truncate: bool| {
            fs::write(&file, "text").unwrap();
            let opened = within(Network::All, with_truncate, || {
                OpenOptions::new().read(true).custom_flags(libc::O_TRUNC).open(&file).map_err(|error| error.kind())
            });
            (opened.map(drop), fs::read_to_string(&file).unwrap())
        };
        assert_eq!(cuts(true), (Err(ErrorKind::PermissionDenied), "text".to_owned()));
        assert_eq!(cuts(false), (Ok(()), String::new()), "without the filter it is cut");
        let others = within(Network::All, true, || {
            let written = OpenOptions::new().write(true).truncate(true).open(&file).map(drop);
            let how = rustix::fs::ResolveFlags::empty();
            let unseen = rustix::fs::openat2(rustix::fs::CWD, &file, rustix::fs::OFlags::RDONLY, 0.into(), how);
            (written.is_ok(), fs::read(&file).is_ok(), unseen.map(drop))
        });
        assert_eq!(others, (true, true, Err(rustix::io::Errno::NOSYS)));
    }
}
