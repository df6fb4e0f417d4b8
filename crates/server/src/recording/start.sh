# Records the desktop until it is told to stop, in the sandbox. Says one word first, once
# there is a picture. The lock is held by the recording itself, so that nobody else's number
# is taken for its own.
directory="$HOME/.cofferdam/recording"
environment="$HOME/.cofferdam/aide/desk-main/environment"
command -v ffmpeg >/dev/null 2>&1 || { echo missing; exit; }
[ -r "$environment" ] || { echo off; exit; }
. "$environment"
umask 077
mkdir -p "$directory" && exec 9>"$directory/lock" || { echo broken; exit; }
looks=400
until flock --nonblock 9; do
    # Somebody else begins one, or ends it: that is waited for.
    [ -s "$directory/process" ] && [ -s "$directory/raw.webm" ] && { echo running; exit; }
    looks=$((looks - 1))
    [ "$looks" -gt 0 ] || { echo broken; exit; }
    sleep 0.1
done
# One that ended by itself and that nobody has fetched is not lost for another.
[ ! -s "$directory/raw.webm" ] || { echo ended; exit; }
rm -f "$directory/raw.webm" "$directory/desktop.webm"
date +%s%3N > "$directory/begun" || { echo broken; exit; }
# Five pictures a second, one thread, an hour and 128 MB at most. What was recorded is in the
# file a second later, also should it be killed.
nice ffmpeg -nostdin -hide_banner -loglevel error -f x11grab -framerate 5 -i "$DISPLAY" \
    -t 3600 -fs 128M -c:v libvpx -deadline realtime -cpu-used 8 -crf 30 -b:v 500k -threads 1 \
    -cluster_time_limit 1000 -flush_packets 1 -y "$directory/raw.webm" >"$directory/errors" 2>&1 &
recording=$!
give_up() {
    kill -KILL "$recording" 2>/dev/null
    rm -f "$directory/process" "$directory/raw.webm"
    echo broken
    exit
}
echo "$recording" > "$directory/process" || give_up
# The head of the file is written with the first picture.
until [ -s "$directory/raw.webm" ]; do
    looks=$((looks - 1))
    [ "$looks" -gt 0 ] && kill -0 "$recording" 2>/dev/null || give_up
    sleep 0.1
done
date +%s%3N > "$directory/begun" || give_up
echo started
exec 9>&-
wait "$recording"
