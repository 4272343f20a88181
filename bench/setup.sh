# Sourced by the benchmarks: a folder that ends with them, and the binary. ICHIDO names it; without it the release build is used.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..
ichido=$(readlink -f "${ICHIDO:-$root/target/release/ichido}")
