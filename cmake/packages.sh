#!/usr/bin/env bash
# Installs the Debian packages among its arguments that are missing. Nothing is asked when none is.
set -euo pipefail
missing=()
for package in "$@"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "Please install as root: apt-get install ${missing[*]}" >&2
    exit 1
  }
  root=(sudo)
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${root[@]}" apt-get update -q >/dev/null
"${root[@]}" apt-get install -qy --no-install-recommends "${missing[@]}" >/dev/null
