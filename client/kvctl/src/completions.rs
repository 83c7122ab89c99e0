//! `kvctl completions`

use crate::cli::Cli;
use crate::failure::Done;
use crate::output::Output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  kvctl completions bash > ~/.local/share/bash-completion/completions/kvctl
  kvctl completions zsh > ~/.zfunc/_kvctl
  kvctl completions fish > ~/.config/fish/completions/kvctl.fish";

/// Write the completions for a shell to standard output
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub fn run(self, output: &mut Output) -> Done {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "kvctl", &mut script);
        output.bytes(&script)
    }
}
