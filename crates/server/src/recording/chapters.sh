# Puts the chapters that come on stdin into the recording, in the sandbox, and says how
# long it is in bytes. Until that is done the recording can be ended again.
directory="$HOME/.cofferdam/recording"
exec 9>"$directory/lock"
flock --timeout 20 9 || exit 1
size() { stat --format=%s "$directory/$1.webm" || echo 0; }
cat > "$directory/chapters"
ffmpeg -nostdin -hide_banner -loglevel error -i "$directory/raw.webm" -f ffmetadata \
    -i "$directory/chapters" -map 0 -map_metadata 1 -map_chapters 1 -c copy -f webm \
    -y "$directory/new.webm" >"$directory/errors" 2>&1
# Without room for them it stays without chapters.
[ "$?" -eq 0 ] && [ "$(size new)" -ge "$(($(size raw) / 10 * 9))" ] ||
    ln -f "$directory/raw.webm" "$directory/new.webm"
mv "$directory/new.webm" "$directory/desktop.webm" && rm -f "$directory/raw.webm"
stat --format=%s "$directory/desktop.webm"
