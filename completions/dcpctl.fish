# fish completion for dcpctl. Generated from the command line by 'dcpctl completions fish'.

# The commands under a command, with what they do.
function __dcpctl_commands
    switch "$argv"
        case ''
            printf '%s\t%s\n' inspect 'What is in a checkpoint'
            printf '%s\t%s\n' verify 'Whether a checkpoint is whole'
            printf '%s\t%s\n' consolidate 'One full-model file from a sharded checkpoint'
            printf '%s\t%s\n' bench 'Measurements'
            printf '%s\t%s\n' help 'Help on a command, or the whole command line as JSON'
            printf '%s\t%s\n' man 'The manual page of a command, in roff'
            printf '%s\t%s\n' completions 'The completion script of a shell'
        case 'bench'
            printf '%s\t%s\n' io 'A synthetic sharded checkpoint, written at the speed of the disk'
    end
end

# The command that is being given, such as "bench io".
function __dcpctl_command
    set -l path
    for word in (commandline -opc)[2..]
        if string match -q -- "$word"\t'*' (__dcpctl_commands $path)
            set -a path $word
        else if not string match -q -- '-*' $word
            break
        end
    end
    echo "$path"
end

function __dcpctl_at
    test (__dcpctl_command) = "$argv"
end

complete -c dcpctl -f
complete -c dcpctl -a '(__dcpctl_commands (__dcpctl_command))'

complete -c dcpctl -n '__dcpctl_at \'\'' -l version -d 'Print the version'
complete -c dcpctl -n '__dcpctl_at \'\'' -s h -l help -d 'Print this help'

complete -c dcpctl -n '__dcpctl_at inspect' -l step -x -d 'CKPT is a run folder: take step N, or \'latest\' (the newest complete one)'
complete -c dcpctl -n '__dcpctl_at inspect' -l pattern -x -d 'Steps are the folders whose name matches REGEX; its one group is the number'
complete -c dcpctl -n '__dcpctl_at inspect' -l prefer-rank -x -d 'Where ranks wrote different values for one key, use rank R\'s'
complete -c dcpctl -n '__dcpctl_at inspect' -l follow-links -d 'Follow symbolic links inside the checkpoint'
complete -c dcpctl -n '__dcpctl_at inspect' -l keys -d 'Flat list of keys'
complete -c dcpctl -n '__dcpctl_at inspect' -l chunks -d 'Each chunk with its box, file and byte range'
complete -c dcpctl -n '__dcpctl_at inspect' -l files -d 'Each data file: bytes, items, unreferenced bytes'
complete -c dcpctl -n '__dcpctl_at inspect' -l model-only -d 'Show the model only, not optimizer and other state'
complete -c dcpctl -n '__dcpctl_at inspect' -l include -x -d 'Keep keys that match GLOB (* crosses dots); repeatable, last match wins'
complete -c dcpctl -n '__dcpctl_at inspect' -l exclude -x -d 'Leave out keys that match GLOB; repeatable, last match wins'
complete -c dcpctl -n '__dcpctl_at inspect' -l key -x -d 'Keep this exact key; repeatable'
complete -c dcpctl -n '__dcpctl_at inspect' -l dtype -x -d 'Cast the model\'s floating tensors to D, such as bfloat16 (bf16), float16, float32 or float8_e4m3fn; optimizer and other state stays'
complete -c dcpctl -n '__dcpctl_at inspect' -l dtype-scope -x -a 'model all' -d 'What --dtype casts: model (default), or all, optimizer and other state included'
complete -c dcpctl -n '__dcpctl_at inspect' -l dtype-rule -x -d 'Floating tensors whose name in the output matches GLOB are cast to D, or kept with GLOB=keep; repeatable, the first match wins, before --dtype'
complete -c dcpctl -n '__dcpctl_at inspect' -l raw -d 'Cast float8 tensors that have a scale, too: their values as they are'
complete -c dcpctl -n '__dcpctl_at inspect' -l json -d 'Print one JSON document on stdout'
complete -c dcpctl -n '__dcpctl_at inspect' -s q -l quiet -d 'Print errors only'
complete -c dcpctl -n '__dcpctl_at inspect' -s v -d 'Say more on stderr'
complete -c dcpctl -n '__dcpctl_at inspect' -l color -x -a 'auto always never' -d 'Colours: auto, always or never'
complete -c dcpctl -n '__dcpctl_at inspect' -s h -l help -d 'Print this help'
complete -c dcpctl -n '__dcpctl_at inspect' -F

complete -c dcpctl -n '__dcpctl_at verify' -l step -x -d 'CKPT is a run folder: take step N, or \'latest\' (the newest complete one)'
complete -c dcpctl -n '__dcpctl_at verify' -l pattern -x -d 'Steps are the folders whose name matches REGEX; its one group is the number'
complete -c dcpctl -n '__dcpctl_at verify' -l prefer-rank -x -d 'Where ranks wrote different values for one key, use rank R\'s'
complete -c dcpctl -n '__dcpctl_at verify' -l follow-links -d 'Follow symbolic links inside the checkpoint'
complete -c dcpctl -n '__dcpctl_at verify' -l quick -d 'Leave the data out: metadata, item headers and small records only'
complete -c dcpctl -n '__dcpctl_at verify' -l sample -x -d 'Of the data check that much, always the same'
complete -c dcpctl -n '__dcpctl_at verify' -l strict -d 'Exit with 1 for warnings too'
complete -c dcpctl -n '__dcpctl_at verify' -s j -l threads -x -d 'Worker threads (default: cores, at least 4, at most 16)'
complete -c dcpctl -n '__dcpctl_at verify' -l max-memory -x -d 'Hard cap on memory (default 1GiB)'
complete -c dcpctl -n '__dcpctl_at verify' -l manifest -r -F -d 'Write digests of all tensors, objects and files to FILE'
complete -c dcpctl -n '__dcpctl_at verify' -l against -r -F -d 'Compare with the manifest in FILE'
complete -c dcpctl -n '__dcpctl_at verify' -l subset -d 'With --against: what is not here is not missed'
complete -c dcpctl -n '__dcpctl_at verify' -l no-files -d 'Leave whole files out, which take a second reading'
complete -c dcpctl -n '__dcpctl_at verify' -l force -d 'Replace the file of --manifest'
complete -c dcpctl -n '__dcpctl_at verify' -l include -x -d 'Keep keys that match GLOB (* crosses dots); repeatable, last match wins'
complete -c dcpctl -n '__dcpctl_at verify' -l exclude -x -d 'Leave out keys that match GLOB; repeatable, last match wins'
complete -c dcpctl -n '__dcpctl_at verify' -l key -x -d 'Keep this exact key; repeatable'
complete -c dcpctl -n '__dcpctl_at verify' -l model-only -d 'The model without optimizer and other training state, its root stripped'
complete -c dcpctl -n '__dcpctl_at verify' -l keep-root -d 'With --model-only: keep the root'
complete -c dcpctl -n '__dcpctl_at verify' -l root -x -d 'Take the subtree under PATH (such as app.model) and strip it'
complete -c dcpctl -n '__dcpctl_at verify' -l add-root -x -d 'Put NAME above all keys'
complete -c dcpctl -n '__dcpctl_at verify' -l clean-fqns -d 'Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module'
complete -c dcpctl -n '__dcpctl_at verify' -l rename -x -d 'Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order'
complete -c dcpctl -n '__dcpctl_at verify' -l rename-map -r -F -d 'Rename whole keys as the JSON object in FILE says'
complete -c dcpctl -n '__dcpctl_at verify' -l tensors-only -d 'Leave out Python objects'
complete -c dcpctl -n '__dcpctl_at verify' -l json -d 'Print one JSON document on stdout'
complete -c dcpctl -n '__dcpctl_at verify' -s q -l quiet -d 'Print errors only'
complete -c dcpctl -n '__dcpctl_at verify' -s v -d 'Say more on stderr'
complete -c dcpctl -n '__dcpctl_at verify' -l color -x -a 'auto always never' -d 'Colours: auto, always or never'
complete -c dcpctl -n '__dcpctl_at verify' -l report -r -F -d 'Write the JSON document to FILE in every outcome'
complete -c dcpctl -n '__dcpctl_at verify' -l progress -x -a 'auto bar plain json none' -d 'Progress on stderr: auto, bar, plain, json or none'
complete -c dcpctl -n '__dcpctl_at verify' -s h -l help -d 'Print this help'
complete -c dcpctl -n '__dcpctl_at verify' -F

complete -c dcpctl -n '__dcpctl_at consolidate' -l step -x -d 'CKPT is a run folder: take step N, or \'latest\' (the newest complete one)'
complete -c dcpctl -n '__dcpctl_at consolidate' -l pattern -x -d 'Steps are the folders whose name matches REGEX; its one group is the number'
complete -c dcpctl -n '__dcpctl_at consolidate' -l prefer-rank -x -d 'Where ranks wrote different values for one key, use rank R\'s'
complete -c dcpctl -n '__dcpctl_at consolidate' -l follow-links -d 'Follow symbolic links inside the checkpoint'
complete -c dcpctl -n '__dcpctl_at consolidate' -l include -x -d 'Keep keys that match GLOB (* crosses dots); repeatable, last match wins'
complete -c dcpctl -n '__dcpctl_at consolidate' -l exclude -x -d 'Leave out keys that match GLOB; repeatable, last match wins'
complete -c dcpctl -n '__dcpctl_at consolidate' -l key -x -d 'Keep this exact key; repeatable'
complete -c dcpctl -n '__dcpctl_at consolidate' -l model-only -d 'The model without optimizer and other training state, its root stripped'
complete -c dcpctl -n '__dcpctl_at consolidate' -l keep-root -d 'With --model-only: keep the root'
complete -c dcpctl -n '__dcpctl_at consolidate' -l root -x -d 'Take the subtree under PATH (such as app.model) and strip it'
complete -c dcpctl -n '__dcpctl_at consolidate' -l add-root -x -d 'Put NAME above all keys'
complete -c dcpctl -n '__dcpctl_at consolidate' -l clean-fqns -d 'Strip the wrapper prefixes _orig_mod, _fsdp_wrapped_module, _checkpoint_wrapped_module and module'
complete -c dcpctl -n '__dcpctl_at consolidate' -l rename -x -d 'Rename what REGEX finds in a key to REPL (\\1 is its first group); repeatable, in order'
complete -c dcpctl -n '__dcpctl_at consolidate' -l rename-map -r -F -d 'Rename whole keys as the JSON object in FILE says'
complete -c dcpctl -n '__dcpctl_at consolidate' -l tensors-only -d 'Leave out Python objects'
complete -c dcpctl -n '__dcpctl_at consolidate' -l expect -r -F -d 'Write only if keys and shapes are those of REF: a checkpoint, or a list as \'inspect --keys\' prints it'
complete -c dcpctl -n '__dcpctl_at consolidate' -l expect-dtypes -d 'With --expect: the dtypes too'
complete -c dcpctl -n '__dcpctl_at consolidate' -l dtype -x -d 'Cast the model\'s floating tensors to D, such as bfloat16 (bf16), float16, float32 or float8_e4m3fn; optimizer and other state stays'
complete -c dcpctl -n '__dcpctl_at consolidate' -l dtype-scope -x -a 'model all' -d 'What --dtype casts: model (default), or all, optimizer and other state included'
complete -c dcpctl -n '__dcpctl_at consolidate' -l dtype-rule -x -d 'Floating tensors whose name in the output matches GLOB are cast to D, or kept with GLOB=keep; repeatable, the first match wins, before --dtype'
complete -c dcpctl -n '__dcpctl_at consolidate' -l raw -d 'Cast float8 tensors that have a scale, too: their values as they are'
complete -c dcpctl -n '__dcpctl_at consolidate' -l fp8-overflow -x -a 'saturate nan' -d 'What float8_e4m3fn makes of numbers beyond 448: saturate (default, as torch 2.15) or nan (as torch 2.11)'
complete -c dcpctl -n '__dcpctl_at consolidate' -l strict-cast -d 'Exit 1 and write nothing if a value is too large for its new dtype'
complete -c dcpctl -n '__dcpctl_at consolidate' -l weights-only-safe -d 'Leave out objects that torch.load(weights_only=True) refuses'
complete -c dcpctl -n '__dcpctl_at consolidate' -l max-shard-size -x -d 'Write a folder of safetensors shards of at most SIZE'
complete -c dcpctl -n '__dcpctl_at consolidate' -l assets -x -a '(__fish_complete_directories)' -d 'With --max-shard-size: copy configuration, tokenizer and generation files from the folder DIR'
complete -c dcpctl -n '__dcpctl_at consolidate' -l mcore-shapes -d 'Give tensors the shapes of Megatron\'s mcore_data, not those that torch sees'
complete -c dcpctl -n '__dcpctl_at consolidate' -l dry-run -d 'Print the plan; create nothing'
complete -c dcpctl -n '__dcpctl_at consolidate' -l force -d 'Replace OUT when the new one is complete'
complete -c dcpctl -n '__dcpctl_at consolidate' -s j -l threads -x -d 'Worker threads (default: cores, at least 4, at most 16)'
complete -c dcpctl -n '__dcpctl_at consolidate' -l max-memory -x -d 'Hard cap on memory (default 1GiB)'
complete -c dcpctl -n '__dcpctl_at consolidate' -l no-verify -d 'Do not check the CRC of what is read'
complete -c dcpctl -n '__dcpctl_at consolidate' -l verify-after -d 'Read the output back before it appears and compare it with what was written'
complete -c dcpctl -n '__dcpctl_at consolidate' -l no-sync -d 'Do not wait for the disk before OUT appears'
complete -c dcpctl -n '__dcpctl_at consolidate' -l json -d 'Print one JSON document on stdout'
complete -c dcpctl -n '__dcpctl_at consolidate' -s q -l quiet -d 'Print errors only'
complete -c dcpctl -n '__dcpctl_at consolidate' -s v -d 'Say more on stderr'
complete -c dcpctl -n '__dcpctl_at consolidate' -l color -x -a 'auto always never' -d 'Colours: auto, always or never'
complete -c dcpctl -n '__dcpctl_at consolidate' -l report -r -F -d 'Write the JSON document to FILE in every outcome'
complete -c dcpctl -n '__dcpctl_at consolidate' -l progress -x -a 'auto bar plain json none' -d 'Progress on stderr: auto, bar, plain, json or none'
complete -c dcpctl -n '__dcpctl_at consolidate' -s h -l help -d 'Print this help'
complete -c dcpctl -n '__dcpctl_at consolidate' -F

complete -c dcpctl -n '__dcpctl_at bench' -s h -l help -d 'Print this help'

complete -c dcpctl -n '__dcpctl_at bench io' -l bytes -x -d 'Bytes of all tensors together (default 1GiB)'
complete -c dcpctl -n '__dcpctl_at bench io' -l world-size -x -d 'Ranks (default 4)'
complete -c dcpctl -n '__dcpctl_at bench io' -l layout -x -a 'shard0 shard1 whole' -d 'shard0 (default), shard1 or whole'
complete -c dcpctl -n '__dcpctl_at bench io' -l tensors -x -d 'Tensors (default 32)'
complete -c dcpctl -n '__dcpctl_at bench io' -l dtype -x -d 'Element type (default float32)'
complete -c dcpctl -n '__dcpctl_at bench io' -l seed -x -d 'Seed of the values (default 1)'
complete -c dcpctl -n '__dcpctl_at bench io' -s j -l threads -x -d 'Worker threads'
complete -c dcpctl -n '__dcpctl_at bench io' -l force -d 'Replace OUT'
complete -c dcpctl -n '__dcpctl_at bench io' -l json -d 'Print one JSON document on stdout'
complete -c dcpctl -n '__dcpctl_at bench io' -s q -l quiet -d 'Print errors only'
complete -c dcpctl -n '__dcpctl_at bench io' -s v -d 'Say more on stderr'
complete -c dcpctl -n '__dcpctl_at bench io' -l color -x -a 'auto always never' -d 'Colours: auto, always or never'
complete -c dcpctl -n '__dcpctl_at bench io' -s h -l help -d 'Print this help'
complete -c dcpctl -n '__dcpctl_at bench io' -F

complete -c dcpctl -n '__dcpctl_at help' -l json -d 'Print one JSON document on stdout'
complete -c dcpctl -n '__dcpctl_at help' -s h -l help -d 'Print this help'
complete -c dcpctl -n '__dcpctl_at help' -a '(__dcpctl_commands (commandline -opc)[3..])'

complete -c dcpctl -n '__dcpctl_at man' -s h -l help -d 'Print this help'
complete -c dcpctl -n '__dcpctl_at man' -a '(__dcpctl_commands (commandline -opc)[3..])'

complete -c dcpctl -n '__dcpctl_at completions' -s h -l help -d 'Print this help'
complete -c dcpctl -n '__dcpctl_at completions' -a 'bash zsh fish'
