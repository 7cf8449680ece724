#!/usr/bin/env bash
# Builds a Debian package into dist/, on Debian 13 or newer with the build dependencies of
# packaging/debian/control. dpkg wants debian/ at the top of the tree, so a copy of the sdist has it.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' memlab/_version.py)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
mkdir -p "$build/memlab" dist
cp -a CMakeLists.txt LICENSE README.md pyproject.toml docs memlab probes "$build/memlab"
cp -a packaging/debian "$build/memlab/debian"
cat >"$build/memlab/debian/changelog" <<END
memlab ($version) unstable; urgency=medium

  * See CHANGELOG.md.

 -- the memlab authors <memlab@localhost>  $(date -R -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")
END
cd "$build/memlab"
rm -f memlab/_probes*.so memlab/_built.py
dpkg-buildpackage --build=binary --no-sign "$@"
cd "$OLDPWD"
mv "$build"/*.deb dist/
ls -l dist/*.deb
