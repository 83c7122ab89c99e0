#!/usr/bin/env bash
# Boots the lab VM, runs one command in it and exits with that command's exit code.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: run.sh [OPTION]... [--] COMMAND [ARG]...

Boots a VM with a Soft-RoCE device (rxe0, 10.0.0.1), runs COMMAND inside, and
exits with its exit code. Standard output carries what COMMAND printed on its
standard output and error, nothing else. What COMMAND leaves running dies with
the VM. A COMMAND that is a program of this machine, named by a path
(target/debug/x), is copied in by itself.

  --copy SRC[:DST]   put a file or directory into the VM, programs with their
                     shared libraries; DST defaults to /payload/bin/NAME for
                     programs (on the PATH inside), /payload/NAME otherwise;
                     a DST that is not absolute is below /payload
  --env NAME=VALUE   set a variable for COMMAND
  --timeout TIME     give up after TIME, e.g. 90s or 10m (default 600s)
  --memory MIB       memory of the VM (default 3072)
  --cpus COUNT       virtual CPUs (default 2)
  --hugepages COUNT  2 MiB pages to set aside inside (default 64)
  --no-strip         leave debug information in the programs
  --console          show the VM's console on standard error afterwards
  --interactive      connect the terminal to COMMAND (see shell.sh)

exit codes: COMMAND's own; 124 the time is up or the VM died; 125 the VM could
not be set up; 130 interrupted

  SIDEWIRE_LAB_ACCEL=tcg|kvm|auto   emulation (default), hardware virtualization,
                                    or the latter if a trial boot succeeds
  SIDEWIRE_LAB_CACHE                see build.sh
TEXT
}

say() { printf 'lab: %s\n' "$*" >&2; }
die() { say "$*"; exit 125; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
timeout=600s memory=3072 cpus=2 hugepages=64 strip=1 console=0 interactive=0
copies=() variables=()

while (($#)); do
    case $1 in
        --copy | --env | --timeout | --memory | --cpus | --hugepages)
            (($# >= 2)) || die "$1 wants a value"
            case $1 in
                --copy) copies+=("$2") ;;
                --env) variables+=("$2") ;;
                --timeout) timeout=$2 ;;
                --memory) memory=$2 ;;
                --cpus) cpus=$2 ;;
                --hugepages) hugepages=$2 ;;
            esac
            shift
            ;;
        --no-strip) strip=0 ;;
        --console) console=1 ;;
        --interactive) interactive=1 ;;
        --help | -h) usage; exit 0 ;;
        --) shift; break ;;
        -*) usage >&2; die "unknown option $1" ;;
        *) break ;;
    esac
    shift
done
(($#)) || { usage >&2; die "no command"; }

type -P qemu-system-x86_64 >/dev/null || die "no qemu-system-x86_64 on this machine: run deploy/setup.sh --lab"

base=$("$here/build.sh") || die "cannot build the VM"
work=$(mktemp -d "${TMPDIR:-/tmp}/sidewire-lab.XXXXXX")
vm='' reader=''

# shellcheck disable=SC2317 # called by the trap
cleanup() {
    # Only processes of this run, by their ids.
    [[ -z $vm ]] || kill "$vm" 2>/dev/null || true
    [[ -z $vm ]] || wait "$vm" 2>/dev/null || true
    [[ -z $reader ]] || kill "$reader" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

is_program() {
    [[ -f $1 && $(head -c 4 "$1" | od -An -tx1) == " 7f 45 4c 46" ]]
}

# The libraries that a program needs and the base has not.
add_libraries() {
    local library
    while read -r library; do
        if ! grep -qxF "usr${library#/usr}" "$base/libraries" && [[ ! -e $root/usr${library#/usr} ]]; then
            install -D -m 755 "$library" "$root/usr${library#/usr}"
        fi
    done < <(ldd "$1" 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p')
}

add_program() {
    local source=$1 target=$root$2
    mkdir -p "${target%/*}"
    # What a debugger reads is most of a Rust program; the symbols of a backtrace stay.
    if ((strip)) && (($(stat -L -c %s "$source") > 4194304)) && type -P strip >/dev/null &&
        strip --strip-debug -o "$target" "$source" 2>/dev/null; then
        chmod 755 "$target"
    else
        install -m 755 "$source" "$target"
    fi
    add_libraries "$source"
}

add_copy() {
    local source=${1%%:*} target='' file
    [[ $1 != *:* ]] || target=${1#*:}
    [[ -e $source ]] || die "--copy: there is no $source"
    if [[ -z $target ]]; then
        if is_program "$source"; then target=bin/; else target=./; fi
    fi
    [[ $target == /* ]] || target=/payload/${target#./}
    [[ $target != */ ]] || target+=$(basename "$source")
    if [[ -d $source ]]; then
        mkdir -p "$root$target"
        cp -RL "$source/." "$root$target/"
        while read -r file; do
            if is_program "$file"; then add_libraries "$file"; fi
        done < <(find -L "$source" -type f -perm -u+x)
    elif is_program "$source"; then
        add_program "$source" "$target"
    else
        mkdir -p "$root${target%/*}"
        cp -L "$source" "$root$target"
    fi
}

root=$work/root
mkdir -p "$root/payload/bin" "$root/payload/.lab"
for copy in "${copies[@]}"; do
    add_copy "$copy"
done
command=("$@")
if [[ $1 == */* && $1 != /payload/* && $1 != /usr/* && $1 != /bin/* ]] && is_program "$1"; then
    name=$(basename "$1")
    [[ -e $root/payload/bin/$name ]] || add_program "$1" "/payload/bin/$name"
    command[0]=/payload/bin/$name
fi

nonce=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
cat >"$root/payload/.lab/settings" <<TEXT
nonce=$nonce
hugepages=$hugepages
interactive=$interactive
TEXT
{
    for variable in "${variables[@]}"; do
        printf 'export %q\n' "$variable"
    done
    if ((interactive)) && [[ -t 0 ]]; then
        read -r rows columns < <(stty size)
        printf 'stty rows %d cols %d\nexport TERM=%q\n' "$((rows ? rows : 24))" "$((columns ? columns : 80))" "${TERM:-vt100}"
    fi
    printf 'exec'
    printf ' %q' "${command[@]}"
    echo
} >"$root/payload/.lab/command"

payload=$work/payload.cpio
(cd "$root" && find . -mindepth 1 -print0 | cpio --null -o -H newc --quiet --owner=0:0) >"$payload"
rm -rf "$root"
cat "$base/base.cpio" "$payload" >"$work/initrd"

# The kernel holds the initramfs twice while it unpacks it.
size=$(($(stat -c %s "$work/initrd") / 1048576))
((size * 2 + 256 <= memory)) || die "the payload of $size MiB does not fit into $memory MiB: raise --memory"

boot() { # accelerator, initrd, time limit, further QEMU options
    local accelerator=$1 initrd=$2 limit=$3 cpu=max foreground=()
    shift 3
    [[ $accelerator != kvm* ]] || cpu=host
    # A process group of its own could not read from the terminal.
    ((!interactive)) || foreground=(--foreground)
    # pdeathsig: should this script be killed outright, the VM goes too.
    exec setpriv --pdeathsig TERM timeout "${foreground[@]}" --kill-after=5s "$limit" \
        setpriv --pdeathsig KILL qemu-system-x86_64 \
        -accel "$accelerator" -cpu "$cpu" -smp "$cpus" -m "$memory" \
        -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$base/kernel" -initrd "$initrd" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable clocksource=tsc" \
        -serial "file:$work/console" "$@"
}

choose_accelerator() {
    case ${SIDEWIRE_LAB_ACCEL:-tcg} in
        tcg) echo tcg,thread=multi ;;
        kvm) echo kvm ;;
        auto)
            # The device file alone proves nothing: some hosts have it and a guest never gets to its first line.
            local verdict
            verdict=$(dirname "$base")/accel-$(cat /proc/sys/kernel/random/boot_id)
            if [[ ! -e $verdict ]]; then
                if [[ -w /dev/kvm ]] &&
                    (boot kvm "$base/base.cpio" 15s) </dev/null >/dev/null 2>&1 &&
                    grep -q '^lab-exit none 0' "$work/console"; then
                    echo kvm >"$verdict"
                else
                    echo tcg,thread=multi >"$verdict"
                fi
            fi
            cat "$verdict"
            ;;
        *) die "SIDEWIRE_LAB_ACCEL is '$SIDEWIRE_LAB_ACCEL', not tcg, kvm or auto" ;;
    esac
}
accelerator=$(choose_accelerator)
: >"$work/console"

# The terminal is left in order and the VM in the background, so that a signal reaches this script at once.
: >"$work/output"
if ((interactive)); then
    [[ ! -t 0 ]] || { saved=$(stty -g); trap 'stty "$saved" 2>/dev/null || true; cleanup' EXIT; stty raw -echo; }
    boot "$accelerator" "$work/initrd" "$timeout" -chardev stdio,id=command,signal=off -serial chardev:command <&0 &
    vm=$!
else
    # Into a file, which never blocks: a serial port whose other end is slow to read drops bytes.
    boot "$accelerator" "$work/initrd" "$timeout" -chardev file,id=command,path="$work/output" -serial chardev:command \
        </dev/null >/dev/null 2>"$work/qemu-errors" &
    vm=$!
    tail -c +1 -s 0.1 -f --pid="$vm" "$work/output" &
    reader=$!
fi
status=0
wait "$vm" || status=$?
vm=''
[[ -z $reader ]] || wait "$reader" || true
reader=''

((!console)) || sed 's/\r$//' "$work/console" >&2
code=$(tr -d '\r' <"$work/console" | sed -n "s/^lab-exit $nonce \([0-9]*\)$/\1/p" | tail -n 1)
if [[ -n $code ]]; then
    tr -d '\r' <"$work/console" | sed -n "s/^lab-failed $nonce /lab: /p" >&2
    exit "$code"
fi
if ((status == 124 || status == 137)); then
    say "no end within $timeout: the VM was stopped"
else
    say "the VM died (QEMU's status $status); the last lines of its console:"
    { cat "$work/qemu-errors" 2>/dev/null || true; tr -d '\r' <"$work/console" | tail -n 25; } >&2
fi
exit 124
