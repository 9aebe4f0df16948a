# bash completion for dcpctl, which is asked what may follow. Printed by 'dcpctl completions bash'.
_dcpctl() {
  local word cur glued='' IFS=$' \t\n'
  local -a words=()
  # Bash parts words at '=': here they are whole. A path is as it was typed: quotes and a tilde are what the shell would have taken out.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    word=${word//[\"\'\\]/}
    if [[ ($word == '=' || $glued) && ${#words[@]} -gt 0 ]]; then words[-1]+=$word; else words+=("${word/#\~\//$HOME/}"); fi
    [[ $word == '=' ]] && glued=1 || glued=''
  done
  cur=${words[-1]}
  mapfile -t COMPREPLY < <(dcpctl completions words -- "${words[@]}" 2>/dev/null)
  [[ $cur != *=* ]] || COMPREPLY=("${COMPREPLY[@]#"${cur%=*}="}") cur=${cur##*=}
  case ${COMPREPLY-} in
    :files) COMPREPLY=() && compopt -o default ;;
    :folders) COMPREPLY=() && compopt -o dirnames ;;
    *)
      mapfile -t COMPREPLY < <(compgen -W "${COMPREPLY[*]%%$'\t'*}" -- "$cur")
      [[ "${COMPREPLY[*]} " != *[.=]' '* ]] || compopt -o nospace ;; # more follows
  esac
}

complete -F _dcpctl dcpctl
