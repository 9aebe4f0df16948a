# What shells.py starts zsh with: each word that a completion offers becomes a line of $OFFERED.
fpath=($ZDOTDIR $fpath)
autoload -Uz compinit
compinit -u -D
PS1= LISTMAX=10000
zstyle ':completion:*' verbose no

# Every completion ends here. Options that make compadd fill arrays instead of offering are passed on.
compadd() {
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
    local -a hits
    builtin compadd -A hits "$@"
    (( $#hits == 0 )) || print -rl -- "${hits[@]%=}" >> $OFFERED
  fi
  builtin compadd "$@"
}

mark() {
  BUFFER=
  print -rn -- $'\0' >> $OFFERED
}
zle -N mark
bindkey '^G' mark
zle -N zle-line-init mark
