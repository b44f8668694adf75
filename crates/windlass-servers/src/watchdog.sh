# Waits for its input to close, which happens when the process that started it is gone, for any reason. Then
# it ends every process that works inside the folder, and removes the folder. The word `done` says that
# there is nothing to do.
folder=$1
trap '' HUP INT TERM
if read -r word && [ "$word" = done ]; then exit 0; fi

# Prints the id and working directory of every process that may be inspected.
places() { ls -l /proc/[0-9]*/cwd 2>/dev/null | sed -n 's|^.* /proc/\([0-9]*\)/cwd -> |\1 |p'; }

# Succeeds as long as there was a process to end.
kill_all() {
    places | (
        found=1
        while read -r pid place; do
            case "$place" in
            "$folder" | "$folder"/*) kill -KILL "$pid" 2>/dev/null && found=0 ;;
            esac
        done
        exit $found
    )
}
tries=500
while [ $tries -gt 0 ] && kill_all; do
    tries=$((tries - 1))
    sleep 0.02
done

# PostgreSQL names its shared memory at the end of the seventh line.
segment=$(sed -n '7s/.* //p' "$folder/data/postmaster.pid" 2>/dev/null)
[ -z "$segment" ] || ipcrm -m "$segment" 2>/dev/null
rm -rf "$folder"
