#!/usr/bin/env bash
# Builds the part of the lab VM that does not change between runs: a kernel
# with Soft-RoCE and a base initramfs. Prints the directory that holds both.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: build.sh [--force]

Builds the lab's kernel and base initramfs into the cache and prints the
directory that holds them (vmlinux or vmlinuz as "kernel", and "base.cpio").

The kernel is the distribution's own, downloaded as a package and unpacked,
never installed. A second run finds everything in the cache.

  --force    build again even when the cache has it

  SIDEWIRE_LAB_CACHE    the cache (default: ${XDG_CACHE_HOME:-~/.cache}/sidewire-lab)
  SIDEWIRE_LAB_KERNEL   a kernel package to use instead of the default,
                        (Debian 12 also has 6.12: what linux-image-6.12-amd64 depends on)
TEXT
}

say() { printf 'lab: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

force=0
while (($#)); do
    case $1 in
        --force) force=1 ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; die "unknown option $1" ;;
    esac
    shift
done

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SIDEWIRE_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sidewire-lab}
PATH=$PATH:/usr/sbin:/sbin # ip, depmod and modprobe live there, which is not on every user's PATH

# Loaded at boot, in this order (modprobe adds what they depend on).
# crc32_generic comes first: rxe asks the kernel for "crc32" by name.
# A module that a kernel has built in, or no longer has, is skipped.
boot_modules=(crc32_generic crc32_pclmul configfs veth ib_uverbs rdma_cm rdma_ucm rdma_rxe)
required_modules=(veth ib_uverbs rdma_rxe)
# Carried along for "modprobe NAME" inside.
spare_modules=(sch_netem sch_tbf virtio_pci virtio_net virtio_console siw tun)

# Real programs beside busybox. busybox has an "ip" of its own that knows no RDMA-era options.
required_tools=(bash ip rdma ibv_devinfo)
optional_tools=(
    ibv_devices ibv_rc_pingpong ibv_srq_pingpong
    ib_read_lat ib_write_lat ib_send_lat ib_atomic_lat
    ib_read_bw ib_write_bw ib_send_bw ib_atomic_bw
    tc ss strace
    etcd # for tests of clusters
)

# The package that the distribution's kernel meta-package stands for.
kernel_package() {
    local meta package
    for meta in linux-image-amd64 linux-image-generic linux-image-virtual; do
        package=$(apt-cache depends --important "$meta" 2>/dev/null |
            sed -n 's/^ *|\{0,1\}Depends: *\(linux-image-[^ ]*[0-9][^ ]*\)$/\1/p' | head -n 1)
        if [[ -n $package ]]; then
            echo "$package"
            return
        fi
    done
    die "the package index names no kernel: run 'apt-get update', or set SIDEWIRE_LAB_KERNEL"
}

# Ubuntu keeps the modules in packages of their own.
kernel_companions() {
    local flavour=${1#linux-image-} name
    flavour=${flavour#unsigned-}
    for name in "linux-modules-$flavour" "linux-modules-extra-$flavour"; do
        if apt-cache show --no-all-versions "$name" >/dev/null 2>&1; then
            echo "$name"
        fi
    done
}

# Copies a host file to the same place under $root, following links, once.
copy_file() {
    local file=$1
    [[ -e $root$file ]] || install -D -m 755 "$file" "$root$file"
}

copy_libraries() {
    local library
    while read -r library; do
        copy_file "$library"
    done < <(ldd "$@" 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ :]*\) (0x.*/\1/p' | sort -u)
}

# QEMU enters an uncompressed kernel directly, which spares the emulated CPU
# the BIOS and the decompression: about three seconds of every boot.
extract_vmlinux() {
    local image=$1 out=$2 magic tool offset
    while read -r magic tool; do
        while read -r offset; do
            # The stream ends inside the file, so the tool complains about what follows.
            tail -c "+$((offset + 1))" "$image" 2>/dev/null | { $tool >"$out" 2>/dev/null || true; }
            if [[ $(head -c 4 "$out" | od -An -tx1) == " 7f 45 4c 46" ]]; then
                return 0
            fi
        done < <(LC_ALL=C grep -abo -P "$magic" "$image" | LC_ALL=C cut -d: -f1 | head -n 4)
    done <<'TEXT'
\xfd7zXZ\x00 xz -dc
\x28\xb5\x2f\xfd zstd -dcq
\x1f\x8b\x08 gzip -dc
\x02\x21\x4c\x18 lz4 -dc
TEXT
    rm -f "$out"
    return 1
}

unpack_kernel() {
    local into=$1 package deb used=()
    mkdir -p "$cache/packages"
    for package in "$kernel" "${companions[@]}"; do
        if ! compgen -G "$cache/packages/${package}_*.deb" >/dev/null; then
            say "downloading $package"
            (cd "$cache/packages" && apt-get download -q -o APT::Sandbox::User=root "$package" >/dev/null) ||
                die "cannot download $package: run 'apt-get update' first"
        fi
        say "unpacking $package"
        deb=$(compgen -G "$cache/packages/${package}_*.deb" | tail -n 1)
        dpkg-deb -x "$deb" "$into"
        used+=(! -name "${deb##*/}")
    done
    find "$cache/packages" -name '*.deb' "${used[@]}" -delete # earlier kernels
}

# Copies the modules named by the arrays above with all they depend on.
pick_modules() {
    local unpacked=$1 version=$2 module file name wanted=()
    local tree=$unpacked/lib/modules/$version
    if [[ ! -d $tree ]]; then # Debian 13 and later ship them under usr/lib
        mkdir -p "$unpacked/lib/modules"
        mv "$unpacked/usr/lib/modules/$version" "$tree"
    fi
    # busybox reads no compressed modules.
    find "$tree" -name '*.ko.xz' -exec xz -d {} +
    find "$tree" -name '*.ko.zst' -exec zstd -dq --rm {} +
    depmod -b "$unpacked" "$version"
    : >"$root/etc/boot.modules"
    for module in "${boot_modules[@]}" "${spare_modules[@]}"; do
        # "insmod /path/x.ko", one line each, dependencies first; "builtin x" for what is built in.
        wanted=()
        while read -r action file _; do
            [[ $action == insmod ]] && wanted+=("$file")
        done < <(modprobe -d "$unpacked" -S "$version" --ignore-install --show-depends "$module" 2>/dev/null)
        for file in "${wanted[@]}"; do
            name=/lib/modules/$version/${file##*/lib/modules/"$version"/}
            copy_module "$unpacked" "$name"
            if [[ " ${boot_modules[*]} " == *" $module "* ]] && ! grep -qxF "$name" "$root/etc/boot.modules"; then
                echo "$name" >>"$root/etc/boot.modules"
            fi
        done
    done
    for module in "${required_modules[@]}"; do
        grep -q "/$module\.ko$" "$root/etc/boot.modules" || grep -q "/$module\.ko$" "$tree/modules.builtin" ||
            die "$kernel has no module $module"
    done
    cp "$tree"/modules.{builtin,order} "$root/lib/modules/$version/"
    cp "$tree"/modules.builtin.modinfo "$root/lib/modules/$version/" 2>/dev/null || true
    depmod -b "$root" "$version"
}

copy_module() {
    [[ -e $root$2 ]] || install -D -m 644 "$1$2" "$root$2"
}

populate_root() {
    local tool path applet
    mkdir -p "$root"/{usr/bin,usr/sbin,usr/lib,usr/lib64,dev,proc,sys,run,tmp,root,etc/libibverbs.d,payload/bin,var/tmp}
    ln -s usr/bin "$root/bin"
    ln -s usr/sbin "$root/sbin"
    ln -s usr/lib "$root/lib"
    ln -s usr/lib64 "$root/lib64"

    for tool in "${required_tools[@]}" "${optional_tools[@]}"; do
        if ! path=$(type -P "$tool"); then
            [[ " ${required_tools[*]} " != *" $tool "* ]] || die "no $tool on this machine: run deploy/setup.sh --lab"
            say "no $tool on this machine: the VM goes without"
            continue
        fi
        install -m 755 "$path" "$root/usr/bin/$tool"
        copy_libraries "$path"
    done

    # The provider for Soft-RoCE only: with all the drivers listed every process prints a warning for each.
    local provider
    for provider in /usr/lib/*/libibverbs/lib{rxe,siw}-rdmav*.so; do
        [[ -e $provider ]] || continue
        copy_file "$provider"
        copy_libraries "$provider"
    done
    compgen -G "$root/usr/lib/*/libibverbs/librxe-*" >/dev/null || die "no librxe: run deploy/setup.sh --lab"
    echo "driver rxe" >"$root/etc/libibverbs.d/rxe.driver"

    local busybox
    busybox=$(type -P busybox) || die "no busybox on this machine: run deploy/setup.sh --lab"
    install -m 755 "$busybox" "$root/usr/bin/busybox"
    for applet in $("$busybox" --list); do
        [[ -e $root/usr/bin/$applet ]] || ln -s busybox "$root/usr/bin/$applet"
    done
    # The kernel runs /sbin/modprobe when it wants a module. bash as sh, because
    # busybox's sh prefers its own applets to whatever PATH finds.
    ln -s ../bin/busybox "$root/usr/sbin/modprobe"
    ln -sf bash "$root/usr/bin/sh"

    echo "root:x:0:0:root:/root:/bin/sh" >"$root/etc/passwd"
    echo "root:x:0:" >"$root/etc/group"
    printf '127.0.0.1 localhost lab\n::1 localhost\n' >"$root/etc/hosts"
    echo "hosts: files" >"$root/etc/nsswitch.conf"
    install -m 755 "$here/guest/init" "$root/init"
}

build() {
    local work=$1 version image
    root=$work/root
    mkdir -p "$work/unpacked"
    populate_root
    unpack_kernel "$work/unpacked"
    image=$(compgen -G "$work/unpacked/boot/vmlinuz-*" | head -n 1)
    version=${image##*/vmlinuz-}
    mkdir -p "$root/lib/modules/$version"
    pick_modules "$work/unpacked" "$version"
    mkdir "$work/out"
    if ! extract_vmlinux "$image" "$work/out/kernel"; then
        say "cannot unpack the kernel image; booting it as it is takes longer"
        cp "$image" "$work/out/kernel"
    fi
    # Not compressed: the emulated CPU would take longer to unpack it than QEMU to load it.
    (cd "$root" && find . -print0 | sort -z | cpio --null -o -H newc --quiet --owner=0:0) >"$work/out/base.cpio"
    (cd "$root" && find . -path './usr/lib*' -name '*.so*' -printf '%P\n') >"$work/out/libraries"
}

mkdir -p "$cache"
# Asking the package index takes most of a second, so its answer holds for a day.
known=$cache/kernel-package
if [[ -n ${SIDEWIRE_LAB_KERNEL:-} ]]; then
    kernel=$SIDEWIRE_LAB_KERNEL
else
    if [[ $force == 1 || -z $(find "$known" -mmin -1440 2>/dev/null) ]]; then
        kernel_package >"$known.$$" || { rm -f "$known.$$"; exit 1; }
        mv "$known.$$" "$known"
    fi
    kernel=$(<"$known")
fi
key=$({
    cat "${BASH_SOURCE[0]}" "$here/guest/init"
    dpkg-query -W busybox-static iproute2 rdma-core ibverbs-providers ibverbs-utils perftest strace bash etcd-server 2>/dev/null || true
} | sha256sum | head -c 12)
base=$cache/base-${kernel#linux-image-}-$key

if [[ $force == 0 && -e $base/base.cpio ]]; then
    touch "$base"
    echo "$base"
    exit 0
fi

exec 9>"$cache/lock"
flock 9 # a second builder waits and then finds the work done
if [[ $force == 1 || ! -e $base/base.cpio ]]; then
    mapfile -t companions < <(kernel_companions "$kernel")
    work=$(mktemp -d "$cache/work.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    build "$work"
    rm -rf "$base"
    mv "$work/out" "$base"
    # Bases that no run has touched for a week belong to older versions of this script.
    find "$cache" -maxdepth 1 -name 'base-*' -mtime +7 -exec rm -rf {} +
    say "built $base"
fi
echo "$base"
