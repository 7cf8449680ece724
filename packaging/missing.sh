#!/bin/sh
# missing.sh [PYTHON]: says in one line all that `make run` lacks here, and exits with 3. The packages
# of Debian that bring it are printed alone, for a program.
python=${1:-python3}
lacks='' packages=''
lack() {
	lacks=$lacks${lacks:+, }$1
	packages="$packages $2"
}
has() { "$python" -c "$1" 2>/dev/null; }

if ! has pass; then
	lack "Python 3.11 or newer (there is no $python)" 'python3 python3-venv python3-dev'
elif ! has 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	lack "Python 3.11 or newer as $python, which is older: name one, make PYTHON=python3.12" ''
else
	has 'import ensurepip, venv' || lack "Python's venv" python3-venv
	has 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' ||
		lack "Python's C headers" python3-dev
fi
compiler=$(command -v "${CC:-cc}" || command -v gcc || command -v clang) || lack 'a C compiler' gcc
echo '#include <stdio.h>' | "${compiler:-false}" -E - >/dev/null 2>&1 || lack "the C library's headers" libc6-dev

[ "$lacks" ] || exit 0
packages=${packages# }
echo "missing here: $lacks${packages:+; on Debian: apt install $packages}" >&2
echo "$packages"
exit 3
