//! The filter of system calls (seccomp): which ones a confined program is refused, with `EPERM` (`clone3` with `ENOSYS`).
//!
//! Refused are the sockets that the [`Network`] forbids, because Landlock does not know most kinds; ways round the filter and round
//! Landlock (`io_uring`, namespaces, mounts, handles of files, on old kernels `truncate`); keys of the user and limits of other
//! processes; and what reaches the whole machine where the user is root. A program that asks in the form of another machine (32
//! bits) is killed. The second form of x86-64 (x32) is refused what the first is refused with `EPERM`.
//!
//! Not refused: `ptrace` and its kin, because Landlock keeps them inside of the sandbox, where a debugger is of use.
//!
//! A change must not take a call off the list that Landlock cannot hold. Whatever is not named here is allowed, so a new kind of
//! system call that goes round Landlock has to be added.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use crate::process::Network;

/// The conditions under which each system call is refused; without one, always.
type Refused = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused whatever they ask for. Those with a plain number have it on every machine.
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
];

/// The flags of `clone` and `unshare` that make namespaces: mount, cgroup, names, IPC, user, processes, network.
const NAMESPACES: &[u64] = &[0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000];
/// The flag of `unshare` that makes a namespace of the clock; in `clone` its bit is a signal's.
const NAMESPACE_OF_TIME: u64 = 0x80;
/// Its flags lie in memory, where a filter cannot look.
const CLONE3: i64 = 435;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
/// The bit of a system call in the second form of x86-64.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Refuses system calls to the calling thread and all that it starts.
pub(super) fn refuse(network: Network, with_truncate: bool) -> Result<(), String> {
    let put_up = || -> Result<(), seccompiler::Error> {
        apply_filter(&filter(refused(network, with_truncate)?, libc::EPERM)?)?;
        // With `ENOSYS` the C library takes `clone`, whose flags can be seen.
        apply_filter(&filter(in_each_form(Refused::from([(CLONE3, Vec::new())])), libc::ENOSYS)?)
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
