#!/usr/bin/env bash
# Builds the fuzz targets with clang and the address and undefined-behaviour sanitizers, and runs each for some seconds.
# usage: fuzz/run.sh [SECONDS [TARGET...]]   (60 seconds, all targets)
# Corpora grow in build-fuzz/corpus/TARGET; an input that breaks a reader is left in build-fuzz/crashes and ends the script.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || for file in fuzz/*.cpp; do targets+=("$(basename "$file" .cpp)"); done

# clang 14 does not know std::source_location.
scripts/install-deps.sh clang-16 libclang-rt-16-dev zlib1g-dev libfmt-dev nlohmann-json3-dev python3
out=build-fuzz
mkdir -p $out/objects $out/crashes
flags=(-std=c++20 -O1 -g -Iinclude -Isrc -I. -Wall -Wextra -fno-omit-frame-pointer -fno-sanitize-recover=all
       -DWINDROW_SANITIZE=1)

# Of the library and the apps only what the readers need.
compile() {  # compile SOURCE...: adds the objects to `objects`, a library of which each target takes what it uses
  local source object
  for source in "$@"; do
    object=$out/objects/${source//\//_}.o
    [[ " ${objects[*]} " == *" $object "* ]] && continue
    objects+=("$object")
    if [ ! -e "$object" ] || [ -n "$(find "$source" src/base src/data src/ir src/ops src/report src/rules apps include -name '*.h' -newer "$object" -o -path "$source" -newer "$object")" ]; then
      clang++-16 "${flags[@]}" -fsanitize=fuzzer-no-link,address,undefined -c "$source" -o "$object"
    fi
  done
}

python3 fuzz/seeds.py $out/corpus build/windrow
for target in "${targets[@]}"; do
  objects=()
  compile src/base/{array,array_create,buffer,error,file,host,json,layout,nearest,shape}.cpp
  case $target in
    rules) compile src/data/{csv,npy,safetensors,safetensors_header,stream}.cpp \
                   src/rules/{check,files,format,functions,lexer,parse_body,parser,safety,slots,strata}.cpp src/report/text.cpp ;;
    picture) compile src/data/{idx,npy,stream}.cpp apps/common/read_picture.cpp src/report/text.cpp ;;
    checkpoint) compile src/data/{safetensors,safetensors_header}.cpp apps/common/metadata.cpp src/report/text.cpp \
                        apps/{automaton,cube,fashion}/settings.cpp apps/cube/{notation,pocket_cube,sticker_cube}.cpp ;;
    log) compile src/report/{event_file,read_log}.cpp ;;
    profile) compile src/profile/json.cpp ;;
    graph) compile src/base/*.cpp src/ir/*.cpp src/ops/*.cpp src/passes/grad.cpp ;;
    *) compile src/data/{csv,idx,npy,npz,safetensors,safetensors_header,stream}.cpp ;;
  esac
  clang++-16 "${flags[@]}" -fsanitize=fuzzer,address,undefined "fuzz/$target.cpp" "${objects[@]}" -lz -lfmt -o "$out/$target"
  mkdir -p "$out/corpus/$target"
  dictionary=()
  [ -e "fuzz/$target.dict" ] && dictionary=(-dict="fuzz/$target.dict")
  echo "== $target, $seconds s"
  "$out/$target" -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=10 \
    -artifact_prefix=$out/crashes/"$target"- -print_final_stats=1 "${dictionary[@]}" "$out/corpus/$target" \
    2> "$out/$target.log" || { tail -n 40 "$out/$target.log"; exit 1; }
  grep -E 'number_of_executed_units|average_exec_per_sec|new_units_added|peak_rss' "$out/$target.log"
done
