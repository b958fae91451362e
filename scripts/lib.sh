# Sourced by the scripts that run checks: counts what passed, and says so on one closing line; a second one
# names what this machine lacks and how many tests went without it.
passed=0 failed=0 skipped=0 lacking=()
JOBS=${JOBS:-$(nproc)}

# check NAME COMMAND...: one check, quiet unless it fails.
check() {
  if scripts/step "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# check_beside NAME COMMAND...: one check, beside as many others as there are cores. wait_for_checks waits for all of them, and
# counts them.
beside=()
check_beside() {
  while [ "$(jobs -pr | wc -l)" -ge "$JOBS" ]; do sleep 0.1; done
  scripts/step "$@" &
  beside+=($!)
}
wait_for_checks() {
  local one
  for one in "${beside[@]}"; do
    if wait "$one"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  done
  beside=()
}

# suite NAME PRESET [CTEST-OPTION...]: a run of ctest; each test counts. Shows what failed, and what was skipped.
suite() {
  local name=$1 preset=$2 folder=build log status=0 counts started=$SECONDS
  shift 2
  [ "$preset" = default ] || folder=build-$preset
  log=$folder/ctest.log
  if compgen -G "$folder/cuda_images/*.cubin" >/dev/null; then # kernels to look at
    MICROSCALE_NVDISASM=$(scripts/get_nvdisasm)
    export MICROSCALE_NVDISASM
  fi
  rm -f "$folder/junit.xml"
  ${run_with:-} ctest --preset "$preset" -j "$JOBS" --output-on-failure --output-junit junit.xml \
    --test-output-size-passed 20000 "$@" >"$log" 2>&1 ||
    status=$?
  counts=$(scripts/junit_counts.py "$folder/junit.xml") || { cat "$log"; counts="0 1 0"; }
  read -r p f s <<<"$counts" # and behind the first line what was lacking
  local what
  while read -r what; do [ -z "$what" ] || lacking+=("$what${name#tests}"); done < <(tail -n +2 <<<"$counts")
  [ "$status" -eq 0 ] || { [ "$f" -gt 0 ] || f=1; grep -vE ' Passed |^ *Start +[0-9]+:' "$log"; }
  [ "$s" -eq 0 ] || grep -E '^ *[0-9]+/[0-9]+ .*Skipped' "$log" || true
  printf '%-28s %s %s passed, %s failed, %s skipped  %s s\n' "$name" \
    "$([ "$f" -eq 0 ] && echo ok || echo FAILED)" "$p" "$f" "$s" $((SECONDS - started))
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# python_tests VENV FOLDER: pytest in a virtual environment; each test counts. Shows the log of what failed.
python_tests() {
  local report=build/${2//\//-}.xml log=build/logs/${2//\//-}.log started=$SECONDS counts what
  "$1/bin/python" -m pytest -q -p no:cacheprovider --show-capture=no --junit-xml "$report" ${PYTEST_ARGUMENTS:-} "$2" \
    >"$log" 2>&1 || cat "$log"
  counts=$(scripts/junit_counts.py "$report") || counts="0 1 0"
  read -r p f s <<<"$counts"
  while read -r what; do [ -z "$what" ] || lacking+=("$what"); done < <(tail -n +2 <<<"$counts")
  printf '%-28s %s %s passed, %s failed, %s skipped  %s s\n' "$2" "$([ "$f" -eq 0 ] && echo ok || echo FAILED)" \
    "$p" "$f" "$s" $((SECONDS - started))
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# closing NAME: the totals, and what was lacking; leaves both for the caller's caller in MICROSCALE_TOTALS; fails if
# anything did.
closing() {
  local missing=""
  [ ${#lacking[@]} -eq 0 ] || missing=$(printf '; %s' "${lacking[@]}")
  [ -z "${MICROSCALE_TOTALS:-}" ] || echo "$passed $failed $skipped ${missing:+$1:${missing#;}}" >>"$MICROSCALE_TOTALS"
  echo "$1: $passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
  [ -z "$missing" ] || echo "$1, not run on this machine:${missing#;}"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
