# fish completion for dcpctl, which is asked what may follow. Printed by 'dcpctl completions fish'.
function __dcpctl_complete
    set -l token (commandline -ct)
    set -l given (string replace -r '^~/' "$HOME/" -- (commandline -opc)[2..] "$token")
    set -l all (dcpctl completions words -- $given 2>/dev/null)
    set -l option (string match -r -- '^--[^=]*=' "$token")
    set -l value (string replace -r -- '^--[^=]*=' '' "$token")
    switch "$all[1]"
        case :files
            string replace -r -- '^' "$option" (__fish_complete_path "$value")
        case :folders
            string replace -r -- '^' "$option" (__fish_complete_directories "$value")
        case '*'
            printf '%s\n' $all
    end
end

complete -c dcpctl -f -a '(__dcpctl_complete)'
