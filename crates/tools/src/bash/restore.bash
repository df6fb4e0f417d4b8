# Runs one call of the `bash` tool: takes up the shell's state, runs the script,
# and puts the state down again. Arguments: the state's path, this call's number,
# `save` or `leave`, the names of variables every call begins with, and the script
# in pieces.
#
# The state is in two files that are written in turn. One that was cut short is no
# whole group of commands, so that nothing of it is done, and the other one, which
# is the state before, counts. Only builtins are used: a process costs more than
# all of this.
__cofferdam=("${@:1:4}")
shift 4
printf -v '__cofferdam[4]' %s "$@"
set --
{
    # Where the desktop is, if one runs. Never a part of the state: the next desktop
    # may be elsewhere.
    if [[ -z $DISPLAY && -r ~/.cofferdam/aide/desk-main/environment ]]; then
        . ~/.cofferdam/aide/desk-main/environment
        __cofferdam[11]=$DISPLAY
    fi
    read -r '__cofferdam[5]' <"$__cofferdam.a"
    read -r '__cofferdam[6]' <"$__cofferdam.b"
    __cofferdam[9]=a
    __cofferdam[10]=$PWD
    shopt -s extglob
    if ((${__cofferdam[5]:1} + 0 > ${__cofferdam[6]:1} + 0)); then
        __cofferdam[9]=b
        . "$__cofferdam.a"
        [[ -n ${__cofferdam[7]} ]] || . "$__cofferdam.b"
    else
        . "$__cofferdam.b"
        [[ -n ${__cofferdam[7]} ]] || . "$__cofferdam.a"
    fi
    builtin shopt -u extglob
} 2>/dev/null
if [[ -n ${__cofferdam[7]} ]]; then
    builtin cd -- "${__cofferdam[7]}" 2>/dev/null || {
        builtin cd -- "${__cofferdam[10]}"
        builtin echo "[the working directory ${__cofferdam[7]} is gone; now in $PWD]" >&2
    }
    OLDPWD=${__cofferdam[8]}
fi
builtin eval "${__cofferdam[4]}"
{
    __cofferdam[4]=$?
    builtin trap - DEBUG ERR RETURN
    builtin set +efuvxC
    IFS=$' \t\n'
} 2>/dev/null
if [[ ${__cofferdam[2]} = save ]]; then
    {
        builtin printf '#%s\n{\n:\n' "${__cofferdam[1]}"
        builtin declare -f
        builtin export -fp
        builtin printf '}\n{\n'
        [[ -z ${__cofferdam[11]} || $DISPLAY != "${__cofferdam[11]}" ]] ||
            builtin export -n DISPLAY XAUTHORITY
        builtin set -o posix
        builtin export -p
        builtin set +o posix
        for __cofferdam_name in ${__cofferdam[3]}; do
            [[ -v $__cofferdam_name ]] || builtin printf 'unset %s\n' "$__cofferdam_name"
        done
        builtin printf '__cofferdam[8]=%q\n__cofferdam[7]=%q\n}\n' "$OLDPWD" "$PWD"
    } 2>/dev/null >"$__cofferdam.${__cofferdam[9]}" ||
        builtin echo "[the shell's directory and variables could not be kept for the next call]" >&2
fi
builtin exit "${__cofferdam[4]}"
