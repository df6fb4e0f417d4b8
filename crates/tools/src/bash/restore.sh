# The same for a plain shell, which can neither list its functions nor survive a
# broken script: a state whose last line is missing is not taken up.
__cofferdam_state=$1 __cofferdam_number=$2 __cofferdam_save=$3 __cofferdam_names=$4
shift 4
__cofferdam_script=
for __cofferdam_piece; do
    __cofferdam_script=$__cofferdam_script$__cofferdam_piece
done
set --
# Where the desktop is, if one runs.
__cofferdam_display=
if [ -z "$DISPLAY" ] && [ -r "$HOME/.cofferdam/aide/desk-main/environment" ]; then
    . "$HOME/.cofferdam/aide/desk-main/environment"
    __cofferdam_display=$DISPLAY
fi
# The number of a whole state, or 0.
__cofferdam_look() {
    __cofferdam_found=0 __cofferdam_first= __cofferdam_last= __cofferdam_line=
    {
        read -r __cofferdam_first
        while IFS= read -r __cofferdam_line; do __cofferdam_last=$__cofferdam_line; done
    } 2>/dev/null <"$1"
    if [ "$__cofferdam_last" = '# whole' ]; then __cofferdam_found=${__cofferdam_first#?}; fi
}
__cofferdam_look "$__cofferdam_state.a"
__cofferdam_number_a=$__cofferdam_found
__cofferdam_look "$__cofferdam_state.b"
__cofferdam_slot=a __cofferdam_cwd= __cofferdam_start=$PWD
if [ "$__cofferdam_number_a" -gt "$__cofferdam_found" ]; then
    __cofferdam_slot=b
    . "$__cofferdam_state.a"
elif [ "$__cofferdam_found" -gt 0 ]; then
    . "$__cofferdam_state.b"
fi
if [ -n "$__cofferdam_cwd" ]; then
    cd -- "$__cofferdam_cwd" 2>/dev/null || {
        cd -- "$__cofferdam_start"
        echo "[the working directory $__cofferdam_cwd is gone; now in $PWD]" >&2
    }
fi
unset __cofferdam_cwd
eval "$__cofferdam_script"
{ __cofferdam_status=$?; set +efux; } 2>/dev/null
if [ "$__cofferdam_save" = save ]; then
    unset IFS
    if [ -n "$__cofferdam_display" ] && [ "$DISPLAY" = "$__cofferdam_display" ]; then
        unset DISPLAY XAUTHORITY
    fi
    __cofferdam_cwd=$PWD
    export __cofferdam_cwd
    {
        printf '#%s\n' "$__cofferdam_number"
        export -p
        for __cofferdam_name in $__cofferdam_names; do
            eval "[ -n \"\${$__cofferdam_name+set}\" ]" || printf 'unset %s\n' "$__cofferdam_name"
        done
        printf '# whole\n'
    } 2>/dev/null >"$__cofferdam_state.$__cofferdam_slot" ||
        echo "[the shell's directory and variables could not be kept for the next call]" >&2
fi
exit "$__cofferdam_status"
