#!/bin/sh
# Install the distribution packages of lists in requirements/apt that are missing.
# usage: requirements/apt.sh [--optional] LIST...
#
# A package counts as present if it is installed, or if a program of its name is on the PATH.
# With --optional, packages that the distribution lacks or cannot install are reported and skipped.
set -eu

optional=
if [ "${1-}" = --optional ]; then optional=1; shift; fi
[ $# -gt 0 ] || { echo "usage: $0 [--optional] LIST..." >&2; exit 2; }
lists=$(dirname "$0")/apt
if [ "$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi

missing=
for list; do
  # shellcheck disable=SC2013 # one name a line
  for package in $(cat "$lists/$list.txt"); do
    command -v "$package" >/dev/null && continue
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed && continue
    missing="$missing $package"
  done
done
[ "$missing" ] || exit 0

$sudo apt-get update -qq
if [ "$optional" ]; then
  wanted=$missing missing=
  for package in $wanted; do
    if apt-cache show "$package" 2>/dev/null | grep -q .; then missing="$missing $package"
    else echo "this distribution has no package $package: tests that need it are skipped"; fi
  done
  [ "$missing" ] || exit 0
fi

echo "installing$missing"
# shellcheck disable=SC2086 # a list of package names
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
  [ "$optional" ] || exit 1
  echo "not installed:$missing: tests that need them are skipped"
}
