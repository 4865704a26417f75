//! The arguments of the commands of `tamtam skill`. The doc comments are the texts of `--help`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum SkillCommand {
    /// List the skills: what each one is for, and the file that defines it
    List {
        /// Folder whose skills are listed with your own [default: the current folder]
        #[arg(long, value_name = "DIR")]
        workspace: Option<PathBuf>,
        /// Print one skill per line, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check skills before you publish or trust them; exits 1 if one cannot be used
    Check {
        /// A SKILL.md, the folder of a skill, or a folder of such folders [default: the folders of skills here]
        paths: Vec<PathBuf>,
        /// Print one skill per line, as JSON
        #[arg(long)]
        json: bool,
    },
}
