//! What is wrong with a command line is said before anything is begun, and exit codes tell failures apart.

use super::output;

#[test]
fn wrong_usage_and_no_server_have_their_exit_codes() {
    for wrong in [
        &["run"][..],
        &["run", "-w", "e"],
        &["run", "-w", "z"],
        &["run", "-w", "c", "--records", "many"],
        &["run", "-w", "c", "--threads", "0"],
        &["run", "-w", "c", "--theta", "-1"],
        &["run", "-w", "c", "--distribution", "normal"],
        &["run", "-w", "c", "-p", "readproportion"],
        &["run", "-w", "c", "-p", "requestdistribution=normal"],
        &["run", "-w", "c", "-p", "scanproportion=0.1"],
        &["run", "-w", "c", "--rate", "0"],
        &["run", "-w", "c", "--rate-sweep", "fast"],
        &["run", "-w", "c", "--arrival", "never"],
        &["run", "-w", "c", "--clients", "0"],
        &["run", "-w", "c", "--pipeline", "4", "-p", "lockproportion=0.5"],
        &["run", "-w", "c", "--target", "mysql://127.0.0.1:1"],
        &["run", "-w", "c", "--target", "null:", "--target", "null:"],
        &["compare", "-w", "c", "--target", "null:"],
        &["run", "-w", "c", "--expect", "reads_per_get"],
        &["load", "--key-size", "3", "--records", "1001"],
        &["load", "--value-size", "5lots"],
        &["load", "--json", "/nonexistent/report.json"],
        &["fabric", "--size", "x"],
        &["connections", "--step", "5,3"],
        &["connections", "--step", "0"],
        &["nonsense"],
    ] {
        let output = output(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{wrong:?}");
    }
    let scan = output(&["run", "-w", "e"]);
    assert!(String::from_utf8_lossy(&scan.stderr).contains("ordered index"));
    // Port 1 is nobody's.
    for command in [&["load"][..], &["run", "-w", "c"], &["fabric"]] {
        let output = output(&[command, &["--server", "127.0.0.1:1"]].concat());
        assert_eq!(output.status.code(), Some(3), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
