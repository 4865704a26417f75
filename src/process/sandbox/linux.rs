//! Confines the calling thread, and all that it starts from then on.
//!
//! Three layers: root's rights over the whole machine are laid down, Landlock holds files and (from Linux 6.12 on) signals, and a
//! filter holds system calls. An error leaves the thread half confined, and the caller must start nothing on it. A change must keep
//! that a layer which cannot be put up is an error, because the caller starts the program on every success.

mod syscalls;

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::{Confinement, SandboxLevel};

/// The newest version whose rights are used; an older kernel holds those that it knows.
const NEWEST: ABI = ABI::V7;
/// Before this version, `truncate` is not Landlock's to refuse.
const TRUNCATE_SINCE: u32 = 3;

/// The rights of root that are left to programs: those over files and its own processes, which builds in containers use. Without
/// the others, such as `CAP_PERFMON`, Landlock also covers the memory and the environment of other processes.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Confines the calling thread permanently. The thread must do nothing after that but start programs, and nothing at all on an
/// error.
pub(super) fn restrict(confinement: &Confinement) -> Result<SandboxLevel, String> {
    lay_down().map_err(|error| format!("root's rights cannot be laid down: {error}"))?;
    let landlock = restrict_files(confinement)?;
    syscalls::refuse(confinement.network, landlock < TRUNCATE_SINCE)?;
    Ok(SandboxLevel { landlock, missing: None })
}

/// Lays down the capabilities that are not in [`KEPT`]. What is started has no more, because it may gain no rights.
fn lay_down() -> rustix::io::Result<()> {
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    let sets = [effective, permitted, inheritable].map(|has| has.intersection(KEPT));
    let [effective, permitted, inheritable] = sets;
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable })
}

/// Confines files and signals. Returns the version of Landlock in use.
fn restrict_files(confinement: &Confinement) -> Result<u32, String> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    // A device that root makes in the workspace would be a way to every disk.
    let write = all & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let ruleset = Ruleset::default().handle_access(all).and_then(|ruleset| ruleset.scope(Scope::Signal));
    let ruleset = ruleset.and_then(Ruleset::create).and_then(|ruleset| allow(ruleset, &confinement.read, read));
    let ruleset = ruleset.and_then(|ruleset| allow(ruleset, &confinement.look, read & !AccessFs::Execute));
    let ruleset = ruleset.and_then(|ruleset| allow(ruleset, &confinement.list, AccessFs::ReadDir.into()));
    let write = if confinement.runs_nothing_written { write & !AccessFs::Execute } else { write };
    let ruleset = ruleset.and_then(|ruleset| allow(ruleset, &confinement.write, write));
    let status = ruleset.and_then(RulesetCreated::restrict_self).map_err(|error| format!("Landlock: {error}"))?;
    match status.landlock {
        _ if !status.no_new_privs => Err("programs cannot be kept from new rights".to_owned()),
        LandlockStatus::Available { effective_abi, kernel_abi } if status.ruleset != RulesetStatus::NotEnforced => {
            Ok(kernel_abi.and_then(|abi| u32::try_from(abi).ok()).unwrap_or(effective_abi as u32))
        }
        LandlockStatus::NotEnabled => {
            Err("the kernel has Landlock, and it is not enabled: boot with `landlock` in `lsm=`".to_owned())
        }
        _ => Err("the kernel has no Landlock: Linux 5.13 or later has it".to_owned()),
    }
}

fn allow(
    ruleset: RulesetCreated,
    paths: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    paths.iter().try_fold(ruleset, |ruleset, path| match PathFd::new(path) {
        Ok(opened) => ruleset.add_rule(PathBeneath::new(opened, rights(path, access))),
        // A path that cannot be opened is not allowed either, so the sandbox is no weaker.
        Err(_) => Ok(ruleset),
    })
}

/// The rights that make sense: a file has none of those of a folder.
fn rights(path: &Path, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) }
}
