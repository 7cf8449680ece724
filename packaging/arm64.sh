#!/usr/bin/env bash
# Makes ~/.cache/memlab/arm64, what an emulated guest of arm64 runs: Debian's Python of this Python's
# version with its libraries, busybox, and the probes, cross-compiled. `packaging/arm64.sh PYTHON`;
# with KERNELS="arm64 arm64-16k" it also unpacks the newest such kernels that apt lists.
# Needs gcc-aarch64-linux-gnu and libc6-dev-arm64-cross. apt's own lists are not touched.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/${1:-.venv/bin/python}
root=${XDG_CACHE_HOME:-$HOME/.cache}/memlab/arm64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$("$python" -c 'import sys; print("{}.{}".format(*sys.version_info))')

mkdir -p "$work"/lists/partial "$work"/archives/partial "$work"/packages "$work"/kernels
cat >"$work/apt.conf" <<END
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::State::lists "$work/lists";
Dir::Cache "$work";
END
export APT_CONFIG=$work/apt.conf
apt-get -qq update || true # a source without arm64 is an error of apt's, and no harm

packages=(python"$version"-minimal libpython"$version"-minimal libpython"$version"-stdlib
	python3-cffi-backend libc6 busybox-static)
# The libraries of Python's modules, by what the module's package depends on.
mapfile -t libraries < <(apt-cache depends libpython"$version"-stdlib:arm64 zlib1g:arm64 \
	python"$version"-minimal:arm64 | sed -n 's/^ *Depends: \(lib[^:]*\|zlib1g\)\(:arm64\)\?$/\1/p' |
	grep -v libpython | sort -u)
(cd "$work/packages" && apt-get -qq download "${packages[@]/%/:arm64}" "${libraries[@]/%/:arm64}")
mkdir -p "$work/root"
for package in "$work"/packages/*.deb; do
	dpkg-deb -x "$package" "$work/root"
done
# Its bytecode, which an emulator would take half a minute to make.
"$python" -m compileall -q --invalidation-mode unchecked-hash \
	-x '/(test|lib2to3|idlelib|tkinter)/' "$work/root/usr/lib/python$version"

export PATH=$(dirname "$python"):$PATH
_PYTHON_HOST_PLATFORM=linux-aarch64 CMAKE_TOOLCHAIN_FILE=$PWD/packaging/aarch64.cmake \
	"$python" -m build --no-isolation --wheel --outdir "$work/wheel" . >"$work/log" 2>&1 ||
	{ tail -n 20 "$work/log" >&2; exit 1; }
"$python" -m zipfile -e "$work"/wheel/*.whl "$work/root/memlab"
chmod +x "$work"/root/memlab/memlab/launch/* # which a zip does not keep

mkdir -p "$(dirname "$root")"
rm -rf "$root"
cp -a "$work/root" "$root"
du -sh "$root"

if [[ ${KERNELS:-} ]]; then
	for flavour in $KERNELS; do
		name=$(apt-cache pkgnames linux-image- | grep -xE "linux-image-[0-9.]+(\+deb[0-9.]+|-[0-9]+)-$flavour" |
			sort -V | tail -n 1 || true)
		[[ -z $name ]] || (cd "$work/kernels" && apt-get -qq download "$name:arm64")
	done
	if compgen -G "$work/kernels/*.deb" >/dev/null; then
		"$(dirname "$python")/memlab" kernels fetch "$work"/kernels/*.deb
	fi
fi
