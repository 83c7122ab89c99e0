#!/usr/bin/env bash
# Installs what Sidewire needs on a Debian or Ubuntu machine. Safe to run again.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: setup.sh [--lab] [--bench] [--device] [--check]

Installs, with apt, what is needed to build Sidewire, and checks the Rust toolchain.

  --lab      also what the test VM with its Soft-RoCE device needs ("make test", "make lab")
  --bench    also the stores that kv-bench compares with, and a browser that looks at its pages
  --device   also what a machine with an RDMA device of its own needs to serve
  --check    install nothing; exit 1 and name what is missing
  --help     this text
TEXT
}

# One package a line, with the reason for it.
build_packages() {
    cat <<'TEXT'
build-essential    the linker and libc that Rust programs are linked with, and make
pkg-config         how the build finds libibverbs
libibverbs-dev     verbs: the interface to RDMA devices that the server and clients are built on
librdmacm-dev      headers that the rdma-sys crate generates its bindings from
clang              compiler headers for bindgen, which reads the verbs headers
libclang-dev       the library bindgen parses them with
protobuf-compiler  the etcd client's build translates etcd's interface with it
libprotobuf-dev    the standard files that interface imports
TEXT
}

lab_packages() {
    cat <<'TEXT'
qemu-system-x86    runs the VM, in software: most build machines have no RDMA device and no kernel for one
busybox-static     the VM's small programs
cpio               packs the VM's file system
kmod               depmod and modprobe: which kernel modules the VM needs
iproute2           ip and rdma, which make the Soft-RoCE device in the VM
rdma-core          configuration of the verbs libraries
ibverbs-providers  the verbs driver for Soft-RoCE
ibverbs-utils      ibv_devinfo
perftest           ib_read_lat and its kin, the yardstick for our own figures
binutils           strip, which keeps the VM small
xz-utils           unpacks the kernel image and its modules
zstd               the same, on distributions that compress with zstd
jq                 finds the test programs in what cargo prints
shellcheck         lints these scripts, a part of "make test"
etcd-server        the tests of clusters start their own
openssl            makes certificates for those tests
strace             to look at a program inside the VM
TEXT
}

bench_packages() {
    cat <<'TEXT'
redis-server       a store under the same load; tests and "make bench" start one of their own
memcached          the same
jq                 reads figures out of reports for the table of "make bench"
chromium           looks at the pages of "kv-bench --html" in a test, without a display
TEXT
}

device_packages() {
    cat <<'TEXT'
rdma-core          loads the kernel modules of the device at boot
ibverbs-providers  the verbs drivers
ibverbs-utils      ibv_devinfo, to see whether the port is active
iproute2           rdma, to list links and make Soft-RoCE or iWARP ones
TEXT
}

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

lab=0 bench=0 device=0 check=0
while (($#)); do
    case $1 in
        --lab) lab=1 ;;
        --bench) bench=1 ;;
        --device) device=1 ;;
        --check) check=1 ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; die "unknown option $1" ;;
    esac
    shift
done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

wanted() {
    build_packages
    ((!lab)) || lab_packages
    ((!bench)) || bench_packages
    ((!device)) || device_packages
}

is_installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

install_packages() {
    local package reason missing=()
    while read -r package reason; do
        is_installed "$package" && continue
        missing+=("$package")
        say "missing: $package ($reason)"
    done < <(wanted | sort -u -k1,1)
    ((${#missing[@]})) || { say "all packages are there"; return; }
    ((!check)) || die "run deploy/setup.sh without --check to install them"

    local as_root=()
    if [[ $(id -u) != 0 ]]; then
        type -P sudo >/dev/null || die "not root and no sudo: install as root: ${missing[*]}"
        as_root=(sudo)
    fi
    local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
    say "installing ${missing[*]}"
    "${apt[@]}" update >/dev/null
    "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# True when version $1 is at least $2.
at_least() {
    [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]
}

check_rust() {
    local minimum version part
    minimum=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$root/Cargo.toml")
    local how="install it with the rustup package of the distribution (Debian 13, Ubuntu 24.04 and later:
    'apt install rustup', then 'rustup default stable') or with the installer of the Rust project;
    the distribution's own cargo and rustc packages are often too old"
    version=$(rustc --version 2>/dev/null | cut -d' ' -f2) || true
    if [[ -z $version ]] || ! type -P cargo >/dev/null; then
        die "no Rust toolchain (at least $minimum): $how"
    fi
    at_least "$version" "$minimum" || die "rustc $version is too old, at least $minimum is needed: $how"
    for part in clippy fmt; do
        cargo "$part" --version >/dev/null 2>&1 ||
            say "note: no cargo $part, which 'make test' needs: 'rustup component add clippy rustfmt', or the packages rust-clippy and rustfmt"
    done
    say "rustc $version"
}

if ! type -P apt-get dpkg-query >/dev/null; then
    die "this is no Debian or Ubuntu machine; the packages are listed, with their reasons, at the top of this script"
fi
install_packages
check_rust
