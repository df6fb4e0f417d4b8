# Records the desktop until it is told to stop, in the sandbox. Says one word first. The
# lock is held by the recording itself, so that nobody else's number is taken for its own.
directory="$HOME/.cofferdam/recording"
environment="$HOME/.cofferdam/aide/desk-main/environment"
command -v ffmpeg >/dev/null 2>&1 || { echo missing; exit; }
[ -r "$environment" ] || { echo off; exit; }
. "$environment"
umask 077
mkdir -p "$directory" && exec 9>"$directory/lock" || { echo broken; exit; }
flock --nonblock 9 || { echo running; exit; }
rm -f "$directory/raw.webm" "$directory/desktop.webm"
echo $$ > "$directory/process" && date +%s%3N > "$directory/begun" || { echo broken; exit; }
echo started
# Five pictures a second, one thread, an hour and 128 MB at most. What was recorded is in the
# file a second later, also should it be killed.
exec nice ffmpeg -nostdin -hide_banner -loglevel error -f x11grab -framerate 5 -i "$DISPLAY" \
    -t 3600 -fs 128M -c:v libvpx -deadline realtime -cpu-used 8 -crf 30 -b:v 500k -threads 1 \
    -cluster_time_limit 1000 -flush_packets 1 -y "$directory/raw.webm" >"$directory/errors" 2>&1
