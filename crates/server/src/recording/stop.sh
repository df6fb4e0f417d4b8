# Ends the recording, in the sandbox. Says one word, then when it began and ended, or why
# there is none.
directory="$HOME/.cofferdam/recording"
[ -s "$directory/process" ] || [ -s "$directory/raw.webm" ] || { echo none; exit; }
exec 9>"$directory/lock"
if ! flock --nonblock 9; then
    process=$(cat "$directory/process")
    kill -TERM "$process" 2>/dev/null
    flock --timeout 20 9 || { kill -KILL "$process" 2>/dev/null; flock --timeout 5 9; } ||
        { echo stuck; exit; }
fi
rm -f "$directory/process"
[ -s "$directory/raw.webm" ] || { echo empty; head -c 300 "$directory/errors"; exit; }
echo ended
cat "$directory/begun"
date -r "$directory/raw.webm" +%s%3N
