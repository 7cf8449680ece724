#!/usr/bin/env bash
# try-debian.sh SUITE ARCHITECTURE WHEEL: installs a wheel into an empty Debian and measures there.
#
#     packaging/try-debian.sh bookworm amd64 dist/memlab-*_x86_64.whl
#     packaging/try-debian.sh bookworm arm64 dist/memlab-*_aarch64.whl
#
# Needs root, debootstrap, and for another architecture qemu-user-static. The root is a plain chroot,
# no mount point, as package builders use. It is made in $TMPDIR, or kept in $DEBIAN_ROOT. What the
# wheel depends on is downloaded outside, so that the root needs no network.
set -euo pipefail
suite=$1 arch=$2 wheel=$3
case $arch in amd64) machine=x86_64 ;; arm64) machine=aarch64 ;; *) machine=$arch ;; esac

# The address of Debian that this machine's own apt is configured with.
archive=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(LABEL)' 'Created-By: Packages' |
	awk '$2 == "main" && $3 == "Debian" { print $1; exit }')
if [[ -z $archive ]]; then
	echo "no source of Debian is configured in apt" >&2
	exit 3
fi

work=$(mktemp -d)
root=${DEBIAN_ROOT:-$work/root}
cleanup() {
	umount "$root/proc" "$root/sys" 2>/dev/null || true
	rm -rf --one-file-system "$work"
}
trap cleanup EXIT

if [[ ! -e $root/usr/bin/python3 ]]; then
	if [[ $arch != $(dpkg --print-architecture) && ! -e /proc/sys/fs/binfmt_misc/qemu-$machine ]]; then
		mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
		cat "/usr/lib/binfmt.d/qemu-$machine.conf" >/proc/sys/fs/binfmt_misc/register
	fi
	debootstrap --arch="$arch" --variant=minbase --include=python3 "$suite" "$root" "$archive" >"$work/log" ||
		{ tail -n 5 "$work/log" >&2; exit 1; }
fi
mountpoint -q "$root/proc" || mount -t proc none "$root/proc"
mountpoint -q "$root/sys" || mount -t sysfs none "$root/sys"
for device in null zero urandom; do
	[[ -c $root/dev/$device ]] || cp -a "/dev/$device" "$root/dev/"
done

version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
site=$root/opt/memlab
rm -rf "$site"
python3 -m pip install --quiet --disable-pip-version-check --only-binary=:all: --target "$site" \
	--python-version "$version" --implementation cp --abi "cp${version/./}" --abi abi3 \
	--platform "manylinux_2_34_$machine" --platform "manylinux_2_28_$machine" \
	--platform "manylinux_2_27_$machine" --platform "manylinux_2_17_$machine" \
	--platform "manylinux2014_$machine" --root-user-action ignore --no-warn-conflicts "$wheel"

memlab() {
	echo "\$ memlab $*"
	chroot "$root" env HOME=/root PYTHONPATH=/opt/memlab python3 -m memlab "$@"
}
memlab --version
memlab list | head -n 3
memlab sweep mmap-write --budget 5s -p file_size=4m --quiet
memlab claims last | head -n 2
memlab sweep page-fault -p chunks=23 -p chunk=512k --no-controls --blocks 2 --quiet
memlab show last | head -n 10
