#!/usr/bin/env bash
# Runs README's two commands where nothing is installed but what README names: in an empty Debian.
#
#     packaging/bare.sh [--as root|user|container] [--root FOLDER] [SUITE] [-- COMMAND ...]
#
# SUITE is bookworm (Debian 12) unless given. `user` is an ordinary user; `container` is root with the
# capabilities of a container that was given none, /sys and /proc/sys read-only. With --root the root
# is made in FOLDER, or found there, and stays; COMMAND is run in its clone of HEAD instead.
#
# Needs root and debootstrap. Debian's address is what this machine's apt is configured with; pip's
# configuration and the proxies are this machine's. Every mount is in a mount namespace that ends with
# its command, so that nothing here can be removed through one.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)

usage() { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
as=root root= suite=bookworm command=()
while (($#)); do
	case $1 in
	--as) as=${2:?} && shift ;;
	--root) root=${2:?} && shift ;;
	--) shift && command=("$@") && break ;;
	-*) usage ;;
	*) suite=$1 ;;
	esac
	shift
done
case $as in root | user | container) ;; *) usage ;; esac
if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
	echo "an empty Debian is made by root with debootstrap: apt install debootstrap" >&2
	exit 3
fi
if ! unshare --mount --propagation private true; then
	echo "no mount namespace can be made here: run this on a host, or in a privileged container" >&2
	exit 3
fi
read -r -a packages < <(sed -n 's/^apt install //p' "$project/README.md")
mapfile -t commands < <(sed -n 's/^\$ //p' "$project/README.md" | head -n 2)

work=
if [[ -z $root ]]; then
	work=$(mktemp -d -p "${TMPDIR:-/var/tmp}" bare-XXXXXX)
	root=$work/root
fi
mkdir -p "$root"
root=$(realpath "$root")
cleanup() {
	for process in /proc/[0-9]*; do
		if [[ $(readlink "$process/root") == "$root" ]]; then kill -9 "${process#/proc/}"; fi
	done 2>/dev/null || true
	[[ -z $work ]] || rm -rf --one-file-system "$work"
}
trap cleanup EXIT

if [[ ! -e $root/made ]]; then
	archive=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(LABEL)' 'Created-By: Packages' |
		awk '$2 == "main" && $3 == "Debian" { print $1; exit }')
	if [[ -z $archive ]]; then
		echo "no source of Debian is configured in apt" >&2
		exit 3
	fi
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	http_proxy=${proxy:-${http_proxy:-}} unshare --mount --propagation private \
		debootstrap --variant=minbase --include="$(IFS=, && echo "${packages[*]}")" \
		"$suite" "$root" "$archive" >"$root.log" 2>&1 || { tail -n 5 "$root.log" "$root/debootstrap/debootstrap.log" >&2; exit 1; }
	rm "$root.log"
	chroot "$root" useradd --create-home ordinary
	touch "$root/made"
fi

case $as in user) user=ordinary home=/home/ordinary ;; *) user=root home=/root ;; esac
clone=$root$home/memlab
[[ -e $clone ]] || git clone --quiet --no-checkout "file://$project" "$clone"
its() { git -c safe.directory="$clone" -C "$clone" "$@"; } # the user's
its fetch --quiet "file://$project" HEAD
its checkout --quiet --force --detach FETCH_HEAD # what was built there stays

# The network and pip as they are here: their files, and the files and folders that these name.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
names='^(MEMLAB_.*|PIP_.*|(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY|SSL_CERT_FILE|REQUESTS_CA_BUNDLE)='
mapfile -t environment < <(env | grep -E "$names" || true)
mkdir -p "$root$home/.config/pip"
[[ ! -e /etc/pip.conf ]] || cp /etc/pip.conf "$root/etc/"
[[ ! -e ~/.config/pip/pip.conf ]] || cp ~/.config/pip/pip.conf "$root$home/.config/pip/"
mapfile -t shared < <({
	printf '%s\n' "${environment[@]}"
	cat "$root/etc/pip.conf" "$root$home/.config/pip/pip.conf"
} 2>/dev/null | sed 's,[^=]*=[ ]*\|file://,,g' | tr ' ,' '\n\n' | grep '^/[^/]' | sort -u)
chroot "$root" chown -R "$user:" "$home"

inside=$(
	cat <<'END_OF_INSIDE'
set -euo pipefail
root=$1 as=$2 user=$3 home=$4
shift 4
mkdir -p "$root"/proc "$root"/sys "$root"/dev
mount -t proc none "$root/proc"
mount -t sysfs none "$root/sys"
mount -t tmpfs -o mode=755 none "$root/dev"
mkdir "$root"/dev/pts "$root"/dev/shm
mount -t tmpfs -o mode=1777 none "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 none "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for n in 0:stdin 1:stdout 2:stderr; do ln -s "fd/${n%:*}" "$root/dev/${n#*:}"; done
for device in null zero full random urandom tty; do cp -a "/dev/$device" "$root/dev/"; done
while (($#)) && [[ $1 != -- ]]; do
	if [[ -d $1 ]]; then mkdir -p "$root$1"; elif [[ -e $1 ]]; then
		mkdir -p "$(dirname "$root$1")"
		touch "$root$1"
	fi
	if [[ -e $1 ]]; then mount --bind -o ro "$1" "$root$1"; fi
	shift
done
shift
drop=()
if [[ $as == container ]]; then
	mount -o remount,bind,ro "$root/sys" # without bind it would be read-only for the whole machine
	mount --bind -o ro "$root/proc/sys" "$root/proc/sys"
	held=-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap
	held+=,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap
	drop=(setpriv --inh-caps=-all --bounding-set="$held")
fi
exec chroot --userspec="$user:$user" "$root" "${drop[@]}" env -i \
	HOME="$home" USER="$user" LANG=C.UTF-8 TERM=dumb PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "$@"
END_OF_INSIDE
)
# Runs its words in the clone.
bare() {
	unshare --mount --propagation private bash -c "$inside" bare "$root" "$as" "$user" "$home" "${shared[@]}" -- \
		"${environment[@]}" sh -c 'cd ~/memlab && exec "$@"' sh "$@"
}
echo "$suite as $as: $(chroot "$root" dpkg-query -W | wc -l) packages, of them asked for: ${packages[*]}"
if ((${#command[@]})); then
	bare "${command[@]}"
	exit
fi
for line in "${commands[@]}"; do
	echo "\$ $line"
	began=$SECONDS code=0
	bare bash -c "$line" || code=$?
	echo "$suite as $as: $line ended with $code after $((SECONDS - began)) s"
	((code == 0)) || exit "$code"
done
