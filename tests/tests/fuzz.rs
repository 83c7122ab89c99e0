//! Every decoder under a bounded number of mutated inputs.
//!
//! What could break: bytes of a peer or a person that crash a decoder, pass a limit, or mean two things. Each target's
//! corpus is fed as it is, then mutated from a printed seed; the input that failed is kept in a file. `make fuzz` runs
//! the same targets without a bound, guided by coverage.
//!
//! `SIDEWIRE_TEST_SEED` repeats a run, `SIDEWIRE_TEST_INPUT=FILE` one input of the target that the file is named after.

use sidewire_tests::fuzz::mutate::Mutator;
use sidewire_tests::fuzz::{TARGETS, Target};
use sidewire_tests::scale;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target.name);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn seed() -> u64 {
    match std::env::var("SIDEWIRE_TEST_SEED") {
        Ok(text) => text.parse().expect("SIDEWIRE_TEST_SEED is a number"),
        Err(_) => rand::random(),
    }
}

/// Feeds one input; keeps it if that fails.
fn feed(target: &Target, input: &[u8], story: &str) -> bool {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).unwrap_or_else(|_| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.failed", target.name));
        let kept = std::fs::write(&path, input).map_or_else(|e| e.to_string(), |()| path.display().to_string());
        panic!("{}: {story}; the input of {} bytes is kept in {kept}", target.name, input.len());
    })
}

fn run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of that name");
    if let Some(path) = std::env::var_os("SIDEWIRE_TEST_INPUT").map(PathBuf::from) {
        if path.file_stem().is_some_and(|stem| stem == name) {
            let accepted = (target.run)(&std::fs::read(&path).unwrap());
            println!("{name}: {} is {}", path.display(), if accepted { "accepted" } else { "refused" });
        }
        return;
    }
    let (corpus, seed) = (corpus(target), seed());
    println!("{name}: {} inputs in the corpus, SIDEWIRE_TEST_SEED={seed}", corpus.len());
    let accepted = corpus.iter().filter(|input| feed(target, input, "of the corpus")).count();
    assert!(accepted > 0, "{name}: nothing of the corpus is accepted, so no mutation gets past the first check");
    let mut mutator = Mutator::new(seed, target.words, target.bytes_max);
    let (mut accepted, inputs) = (0u64, scale(target.inputs));
    for n in 0..inputs {
        let input = mutator.next(&corpus);
        accepted += u64::from(feed(target, &input, &format!("input {n} of seed {seed}")));
    }
    println!("{name}: {inputs} inputs, {accepted} accepted");
    assert!(accepted > 0 && accepted < inputs, "{name}: {accepted} of {inputs} accepted says nothing");
}

macro_rules! targets {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )+

        #[test]
        fn each_target_runs() {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),+]);
        }
    };
}

targets! { ack beat bucket config convert record request ring segment shell }
