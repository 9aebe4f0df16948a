# bash completion for dcpctl. Generated from the command line by 'dcpctl completions bash'.

# The commands under a command.
_dcpctl_commands() {
  case $1 in
    '') echo 'inspect verify consolidate reshard cast convert diff extract list prune edit maps ranks doctor bench help man version completions' ;;
    'bench') echo 'io staging' ;;
  esac
}

# Sets `options`, and `valued`: those of them that take a value.
_dcpctl_options() {
  case $1 in
    '')
      options='-V --version --json -q --quiet -v --color --no-pager --report --progress --sandbox -h --help'
      valued='--color --report --progress --sandbox' ;;
    'inspect')
      options='--step --pattern --prefer-rank --max-pickle --follow-links --sandbox --max-memory --summary --depth --tree --keys --chunks --files --stats -j --threads --html --include --exclude --key --model-only --keep-root --root --add-root --clean-fqns --rename --rename-map --tensors-only --map --to-map --config --set --unmapped --map-from --model-root --fail-on --dtype --dtype-scope --dtype-rule --raw --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--step --pattern --prefer-rank --max-pickle --sandbox --max-memory --depth --stats -j --threads --html --include --exclude --key --root --add-root --rename --rename-map --map --to-map --config --set --unmapped --map-from --model-root --fail-on --dtype --dtype-scope --dtype-rule --color --report --progress' ;;
    'verify')
      options='--step --pattern --prefer-rank --max-pickle --follow-links --sandbox --quick --sample --strict --fail-on -j --threads --max-memory --manifest --against --subset --no-files --force --include --exclude --key --model-only --keep-root --root --add-root --clean-fqns --rename --rename-map --tensors-only --map --to-map --config --set --unmapped --map-from --model-root --transport --timeout --alone --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--step --pattern --prefer-rank --max-pickle --sandbox --sample --fail-on -j --threads --max-memory --manifest --against --include --exclude --key --root --add-root --rename --rename-map --map --to-map --config --set --unmapped --map-from --model-root --transport --timeout --color --report --progress' ;;
    'consolidate')
      options='--step --pattern --prefer-rank --max-pickle --follow-links --sandbox --include --exclude --key --model-only --keep-root --root --add-root --clean-fqns --rename --rename-map --tensors-only --map --to-map --config --set --unmapped --map-from --model-root --expect --expect-dtypes --strict --dtype --dtype-scope --dtype-rule --raw --fp8-overflow --strict-cast --weights-only-safe --max-shard-size --like-index --assets --mcore-shapes --dry-run --force -j --threads --max-memory --no-verify --verify-after --no-sync --gather --transport --timeout --alone --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--step --pattern --prefer-rank --max-pickle --sandbox --include --exclude --key --root --add-root --rename --rename-map --map --to-map --config --set --unmapped --map-from --model-root --expect --dtype --dtype-scope --dtype-rule --fp8-overflow --max-shard-size --like-index --assets -j --threads --max-memory --gather --transport --timeout --color --report --progress' ;;
    'reshard')
      options='--step --pattern --prefer-rank --max-pickle --follow-links --sandbox --include --exclude --key --model-only --keep-root --root --add-root --clean-fqns --rename --rename-map --tensors-only --map --to-map --config --set --unmapped --map-from --model-root --expect --expect-dtypes --strict --dtype --dtype-scope --dtype-rule --raw --fp8-overflow --strict-cast --world-size --mesh --mesh-dims --placements --like --layout --for-torch --dry-run --force -j --threads --max-memory --no-verify --verify-after --no-sync --gather --transport --timeout --alone --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--step --pattern --prefer-rank --max-pickle --sandbox --include --exclude --key --root --add-root --rename --rename-map --map --to-map --config --set --unmapped --map-from --model-root --expect --dtype --dtype-scope --dtype-rule --fp8-overflow --world-size --mesh --mesh-dims --placements --like --layout --for-torch -j --threads --max-memory --gather --transport --timeout --color --report --progress' ;;
    'cast')
      options='--step --pattern --prefer-rank --max-pickle --follow-links --sandbox --include --exclude --key --model-only --keep-root --root --add-root --clean-fqns --rename --rename-map --tensors-only --map --to-map --config --set --unmapped --map-from --model-root --expect --expect-dtypes --strict --dtype --dtype-scope --dtype-rule --raw --fp8-overflow --strict-cast --weights-only-safe --for-torch --dry-run --force -j --threads --max-memory --no-verify --verify-after --no-sync --gather --transport --timeout --alone --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--step --pattern --prefer-rank --max-pickle --sandbox --include --exclude --key --root --add-root --rename --rename-map --map --to-map --config --set --unmapped --map-from --model-root --expect --dtype --dtype-scope --dtype-rule --fp8-overflow --for-torch -j --threads --max-memory --gather --transport --timeout --color --report --progress' ;;
    'convert')
      options='--step --pattern --prefer-rank --max-pickle --follow-links --sandbox --include --exclude --key --model-only --keep-root --root --add-root --clean-fqns --rename --rename-map --tensors-only --map --to-map --config --set --unmapped --map-from --model-root --expect --expect-dtypes --strict --dtype --dtype-scope --dtype-rule --raw --fp8-overflow --strict-cast --world-size --for-torch --weights-only-safe --max-shard-size --like-index --assets --mcore-shapes --dry-run --force -j --threads --max-memory --no-verify --verify-after --no-sync --gather --transport --timeout --alone --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--step --pattern --prefer-rank --max-pickle --sandbox --include --exclude --key --root --add-root --rename --rename-map --map --to-map --config --set --unmapped --map-from --model-root --expect --dtype --dtype-scope --dtype-rule --fp8-overflow --world-size --for-torch --max-shard-size --like-index --assets -j --threads --max-memory --gather --transport --timeout --color --report --progress' ;;
    'diff')
      options='--step --pattern --prefer-rank --max-pickle --follow-links --sandbox --step-b --max-memory -j --threads --rtol --atol --equal-nan --compare-as --keys-only --include --exclude --key --model-only --keep-root --root --add-root --clean-fqns --rename --rename-map --tensors-only --strict --map --to-map --config --set --unmapped --map-from --model-root --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--step --pattern --prefer-rank --max-pickle --sandbox --step-b --max-memory -j --threads --rtol --atol --compare-as --include --exclude --key --root --add-root --rename --rename-map --map --to-map --config --set --unmapped --map-from --model-root --color --report --progress' ;;
    'extract')
      options='--step --pattern --prefer-rank --max-pickle --follow-links --sandbox --slice --stats -o --output --format --dtype --raw --force --no-verify --no-sync -j --threads --max-memory --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--step --pattern --prefer-rank --max-pickle --sandbox --slice -o --output --format --dtype -j --threads --max-memory --color --report --progress' ;;
    'list')
      options='--pattern --follow-links -j --threads --max-memory --sandbox --latest --latest-full --latest-model --after --wait --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--pattern -j --threads --max-memory --sandbox --after --wait --color --report --progress' ;;
    'prune')
      options='--pattern --follow-links -j --threads --max-memory --sandbox --keep-latest --keep-every --partial --older-than --drop-optimizer --grace --dry-run --yes --no-sync --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--pattern -j --threads --max-memory --sandbox --keep-latest --keep-every --older-than --grace --color --report --progress' ;;
    'edit')
      options='--step --pattern --prefer-rank --max-pickle --follow-links --sandbox --include --exclude --key --model-only --keep-root --root --add-root --clean-fqns --rename --rename-map --tensors-only --for-torch --in-place --no-orig --link --strict --dry-run --force -j --threads --max-memory --no-sync --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--step --pattern --prefer-rank --max-pickle --sandbox --include --exclude --key --root --add-root --rename --rename-map --for-torch --link -j --threads --max-memory --color --report --progress' ;;
    'maps')
      options='--config --set --json -q --quiet -v --color --no-pager -h --help'
      valued='--config --set --color' ;;
    'ranks')
      options='--step --pattern --prefer-rank --max-pickle --follow-links --sandbox --max-memory --transport --timeout --alone --json -q --quiet -v --color --no-pager -h --help'
      valued='--step --pattern --prefer-rank --max-pickle --sandbox --max-memory --transport --timeout --color' ;;
    'doctor')
      options='--json -q --quiet -v --color --no-pager -h --help'
      valued='--color' ;;
    'bench')
      options='-h --help'
      valued='' ;;
    'bench io')
      options='--in --generate-only --repeats --bytes --world-size --layout --tensors --dtype --seed -j --threads --force --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--in --repeats --bytes --world-size --layout --tensors --dtype --seed -j --threads --color --report --progress' ;;
    'bench staging')
      options='--sizes --count --model --like --dtype --optimizer --world-size --rank --device --devices --methods --streams --chunks --repeats --warmup --no-numa --save --steps --save-every --step-time --modes --keep-latest-k --last-model-only --export-dtype --no-sync --html --force --json -q --quiet -v --color --no-pager --report --progress -h --help'
      valued='--sizes --count --model --like --dtype --world-size --rank --device --devices --methods --streams --chunks --repeats --warmup --save --steps --save-every --step-time --modes --keep-latest-k --export-dtype --html --color --report --progress' ;;
    'help')
      options='--json --no-pager -h --help'
      valued='' ;;
    'man')
      options='-h --help'
      valued='' ;;
    'version')
      options='--json -h --help'
      valued='' ;;
    'completions')
      options='--prefix --step --sandbox -h --help'
      valued='--prefix --step --sandbox' ;;
  esac
}

# Sets `kind` or `list` for the value of an option, or for an argument by its number.
_dcpctl_value() {
  case $1 in
    ' --color') list='auto always never' ;;
    ' --report') kind=file ;;
    ' --progress') list='auto bar plain json none' ;;
    ' --sandbox') list='auto on off' ;;
    'inspect --step') kind=steps ;;
    'inspect --sandbox') list='auto on off' ;;
    'inspect --stats') kind=keys ;;
    'inspect --html') kind=file ;;
    'inspect --include') kind=keys ;;
    'inspect --exclude') kind=keys ;;
    'inspect --key') kind=keys ;;
    'inspect --rename-map') kind=file ;;
    'inspect --map') kind=file ;;
    'inspect --to-map') kind=file ;;
    'inspect --config') kind=file ;;
    'inspect --unmapped') list='error keep drop' ;;
    'inspect --map-from') list='left right' ;;
    'inspect --fail-on') list='unsafe damage warnings' ;;
    'inspect --dtype') list=$(_dcpctl_dtypes) ;;
    'inspect --dtype-scope') list='model all' ;;
    'inspect --dtype-rule') kind=dtype-rule ;;
    'inspect --color') list='auto always never' ;;
    'inspect --report') kind=file ;;
    'inspect --progress') list='auto bar plain json none' ;;
    'inspect '[0-9]*) kind=file ;;
    'verify --step') kind=steps ;;
    'verify --sandbox') list='auto on off' ;;
    'verify --fail-on') list='unsafe damage warnings' ;;
    'verify --manifest') kind=file ;;
    'verify --against') kind=file ;;
    'verify --include') kind=keys ;;
    'verify --exclude') kind=keys ;;
    'verify --key') kind=keys ;;
    'verify --rename-map') kind=file ;;
    'verify --map') kind=file ;;
    'verify --to-map') kind=file ;;
    'verify --config') kind=file ;;
    'verify --unmapped') list='error keep drop' ;;
    'verify --map-from') list='left right' ;;
    'verify --transport') list='auto file gloo nccl' ;;
    'verify --color') list='auto always never' ;;
    'verify --report') kind=file ;;
    'verify --progress') list='auto bar plain json none' ;;
    'verify '[0-9]*) kind=file ;;
    'consolidate --step') kind=steps ;;
    'consolidate --sandbox') list='auto on off' ;;
    'consolidate --include') kind=keys ;;
    'consolidate --exclude') kind=keys ;;
    'consolidate --key') kind=keys ;;
    'consolidate --rename-map') kind=file ;;
    'consolidate --map') kind=file ;;
    'consolidate --to-map') kind=file ;;
    'consolidate --config') kind=file ;;
    'consolidate --unmapped') list='error keep drop' ;;
    'consolidate --map-from') list='left right' ;;
    'consolidate --expect') kind=file ;;
    'consolidate --dtype') list=$(_dcpctl_dtypes) ;;
    'consolidate --dtype-scope') list='model all' ;;
    'consolidate --dtype-rule') kind=dtype-rule ;;
    'consolidate --fp8-overflow') list='saturate nan' ;;
    'consolidate --like-index') kind=folder ;;
    'consolidate --assets') kind=folder ;;
    'consolidate --gather') list='rank0 none' ;;
    'consolidate --transport') list='auto file gloo nccl' ;;
    'consolidate --color') list='auto always never' ;;
    'consolidate --report') kind=file ;;
    'consolidate --progress') list='auto bar plain json none' ;;
    'consolidate 0') kind=file ;;
    'consolidate 1') kind=file ;;
    'reshard --step') kind=steps ;;
    'reshard --sandbox') list='auto on off' ;;
    'reshard --include') kind=keys ;;
    'reshard --exclude') kind=keys ;;
    'reshard --key') kind=keys ;;
    'reshard --rename-map') kind=file ;;
    'reshard --map') kind=file ;;
    'reshard --to-map') kind=file ;;
    'reshard --config') kind=file ;;
    'reshard --unmapped') list='error keep drop' ;;
    'reshard --map-from') list='left right' ;;
    'reshard --expect') kind=file ;;
    'reshard --dtype') list=$(_dcpctl_dtypes) ;;
    'reshard --dtype-scope') list='model all' ;;
    'reshard --dtype-rule') kind=dtype-rule ;;
    'reshard --fp8-overflow') list='saturate nan' ;;
    'reshard --like') kind=file ;;
    'reshard --layout') kind=file ;;
    'reshard --gather') list='rank0 none' ;;
    'reshard --transport') list='auto file gloo nccl' ;;
    'reshard --color') list='auto always never' ;;
    'reshard --report') kind=file ;;
    'reshard --progress') list='auto bar plain json none' ;;
    'reshard 0') kind=file ;;
    'reshard 1') kind=file ;;
    'cast --step') kind=steps ;;
    'cast --sandbox') list='auto on off' ;;
    'cast --include') kind=keys ;;
    'cast --exclude') kind=keys ;;
    'cast --key') kind=keys ;;
    'cast --rename-map') kind=file ;;
    'cast --map') kind=file ;;
    'cast --to-map') kind=file ;;
    'cast --config') kind=file ;;
    'cast --unmapped') list='error keep drop' ;;
    'cast --map-from') list='left right' ;;
    'cast --expect') kind=file ;;
    'cast --dtype') list=$(_dcpctl_dtypes) ;;
    'cast --dtype-scope') list='model all' ;;
    'cast --dtype-rule') kind=dtype-rule ;;
    'cast --fp8-overflow') list='saturate nan' ;;
    'cast --gather') list='rank0 none' ;;
    'cast --transport') list='auto file gloo nccl' ;;
    'cast --color') list='auto always never' ;;
    'cast --report') kind=file ;;
    'cast --progress') list='auto bar plain json none' ;;
    'cast 0') kind=file ;;
    'cast 1') kind=file ;;
    'convert --step') kind=steps ;;
    'convert --sandbox') list='auto on off' ;;
    'convert --include') kind=keys ;;
    'convert --exclude') kind=keys ;;
    'convert --key') kind=keys ;;
    'convert --rename-map') kind=file ;;
    'convert --map') kind=file ;;
    'convert --to-map') kind=file ;;
    'convert --config') kind=file ;;
    'convert --unmapped') list='error keep drop' ;;
    'convert --map-from') list='left right' ;;
    'convert --expect') kind=file ;;
    'convert --dtype') list=$(_dcpctl_dtypes) ;;
    'convert --dtype-scope') list='model all' ;;
    'convert --dtype-rule') kind=dtype-rule ;;
    'convert --fp8-overflow') list='saturate nan' ;;
    'convert --like-index') kind=folder ;;
    'convert --assets') kind=folder ;;
    'convert --gather') list='rank0 none' ;;
    'convert --transport') list='auto file gloo nccl' ;;
    'convert --color') list='auto always never' ;;
    'convert --report') kind=file ;;
    'convert --progress') list='auto bar plain json none' ;;
    'convert 0') kind=file ;;
    'convert 1') kind=file ;;
    'diff --step') kind=steps ;;
    'diff --sandbox') list='auto on off' ;;
    'diff --step-b') kind=steps ;;
    'diff --compare-as') list=$(_dcpctl_dtypes) ;;
    'diff --include') kind=keys ;;
    'diff --exclude') kind=keys ;;
    'diff --key') kind=keys ;;
    'diff --rename-map') kind=file ;;
    'diff --map') kind=file ;;
    'diff --to-map') kind=file ;;
    'diff --config') kind=file ;;
    'diff --unmapped') list='error keep drop' ;;
    'diff --map-from') list='left right' ;;
    'diff --color') list='auto always never' ;;
    'diff --report') kind=file ;;
    'diff --progress') list='auto bar plain json none' ;;
    'diff 0') kind=file ;;
    'diff 1') kind=file ;;
    'extract --step') kind=steps ;;
    'extract --sandbox') list='auto on off' ;;
    'extract -o' | 'extract --output') kind=file ;;
    'extract --format') list='npy pt safetensors raw text json' ;;
    'extract --dtype') list=$(_dcpctl_dtypes) ;;
    'extract --color') list='auto always never' ;;
    'extract --report') kind=file ;;
    'extract --progress') list='auto bar plain json none' ;;
    'extract 0') kind=file ;;
    'extract 1') kind=keys ;;
    'list --sandbox') list='auto on off' ;;
    'list --after') kind=steps ;;
    'list --color') list='auto always never' ;;
    'list --report') kind=file ;;
    'list --progress') list='auto bar plain json none' ;;
    'list '[0-9]*) kind=folder ;;
    'prune --sandbox') list='auto on off' ;;
    'prune --color') list='auto always never' ;;
    'prune --report') kind=file ;;
    'prune --progress') list='auto bar plain json none' ;;
    'prune 0') kind=folder ;;
    'edit --step') kind=steps ;;
    'edit --sandbox') list='auto on off' ;;
    'edit --include') kind=keys ;;
    'edit --exclude') kind=keys ;;
    'edit --key') kind=keys ;;
    'edit --rename-map') kind=file ;;
    'edit --link') list='reflink hard copy' ;;
    'edit --color') list='auto always never' ;;
    'edit --report') kind=file ;;
    'edit --progress') list='auto bar plain json none' ;;
    'edit 0') kind=file ;;
    'edit 1') kind=file ;;
    'maps --config') kind=file ;;
    'maps --color') list='auto always never' ;;
    'maps 0') kind=file ;;
    'ranks --step') kind=steps ;;
    'ranks --sandbox') list='auto on off' ;;
    'ranks --transport') list='auto file gloo nccl' ;;
    'ranks --color') list='auto always never' ;;
    'ranks 0') kind=file ;;
    'doctor --color') list='auto always never' ;;
    'doctor 0') kind=folder ;;
    'bench io --in') kind=folder ;;
    'bench io --layout') list='shard0 shard1 whole' ;;
    'bench io --dtype') list=$(_dcpctl_dtypes) ;;
    'bench io --color') list='auto always never' ;;
    'bench io --report') kind=file ;;
    'bench io --progress') list='auto bar plain json none' ;;
    'bench io 0') kind=file ;;
    'bench staging --model') list='tiny gpt2 llama-1b llama-8b llama-70b qwen-7b' ;;
    'bench staging --like') kind=file ;;
    'bench staging --dtype') list=$(_dcpctl_dtypes) ;;
    'bench staging --device') list='auto cuda cpu' ;;
    'bench staging --save') kind=folder ;;
    'bench staging --export-dtype') list=$(_dcpctl_dtypes) ;;
    'bench staging --html') kind=file ;;
    'bench staging --color') list='auto always never' ;;
    'bench staging --report') kind=file ;;
    'bench staging --progress') list='auto bar plain json none' ;;
    'help '[0-9]*) kind=command ;;
    'man '[0-9]*) kind=command ;;
    'completions --step') kind=steps ;;
    'completions --sandbox') list='auto on off' ;;
    'completions 0') list='bash zsh fish keys steps' ;;
    'completions 1') kind=file ;;
  esac
}

_dcpctl_dtypes() {
  echo 'float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz fp32 fp16 bf16 f8e4m3 f8e5m2'
}

# Names that only dcpctl knows. The path is as it was typed: quotes and a tilde are what the shell would have taken out.
_dcpctl_names() {
  local what=$1 ckpt=${2//[\"\'\\]/}
  [[ $ckpt ]] && dcpctl completions "$what" "${ckpt/#\~\//$HOME/}" "${@:3}" 2>/dev/null
}

_dcpctl() {
  local cur word i glued='' path='' before='' arguments=0 options='' valued='' list='' kind='' ckpt='' step=''
  local -a words=()
  # Bash hands over --option=value as three words; here they are two, as in --option value. Any other word with a '=' is one.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == '=' && ${words[-1]-} == --* ]]; then words+=('') glued=1
    elif [[ $word == '=' && ${#words[@]} -gt 0 ]]; then words[-1]+='=' glued=1
    elif [[ $glued ]]; then words[-1]+=$word glued=''
    else words+=("$word")
    fi
  done
  cur=${words[-1]}
  unset 'words[-1]'

  _dcpctl_options ''
  for word in "${words[@]}"; do
    if [[ $before ]]; then
      [[ $before != --step ]] || step=$word
      before=''
    elif [[ " $(_dcpctl_commands "$path") " == *" $word "* ]]; then
      path=${path:+$path }$word
      _dcpctl_options "$path"
    elif [[ " $valued " == *" $word "* ]]; then before=$word
    elif [[ $word != -* ]]; then
      ((arguments++)) || ckpt=$word
    fi
  done

  if [[ $before ]]; then _dcpctl_value "$path $before"
  elif [[ $cur == -* ]]; then list=$options
  else
    list=$(_dcpctl_commands "$path")
    _dcpctl_value "$path $arguments"
  fi
  COMPREPLY=()
  case $kind in
    file) compopt -o default ;;
    folder) compopt -o dirnames ;;
    command) mapfile -t COMPREPLY < <(compgen -W "$(_dcpctl_commands "${words[*]:1}")" -- "$cur") ;;
    keys)
      mapfile -t COMPREPLY < <(_dcpctl_names keys "$ckpt" ${cur:+--prefix "$cur"} ${step:+--step "$step"})
      [[ " ${COMPREPLY[*]} " != *'. '* ]] || compopt -o nospace ;;  # more components follow
    steps) mapfile -t COMPREPLY < <(compgen -W "$(_dcpctl_names steps "$ckpt")" -- "$cur") ;;
    dtype-rule)
      if [[ $cur == *=* ]]; then mapfile -t COMPREPLY < <(compgen -W "$(_dcpctl_dtypes) keep" -- "${cur##*=}")
      else
        compopt -o nospace
        mapfile -t COMPREPLY < <(_dcpctl_names keys "$ckpt" ${cur:+--prefix "$cur"} ${step:+--step "$step"})
        COMPREPLY=("${COMPREPLY[@]/%/=}")
        COMPREPLY=("${COMPREPLY[@]/%.=/.}")
      fi ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$list" -- "$cur") ;;
  esac
}

complete -F _dcpctl dcpctl
