package swci

// hostCommands are the tools that are no words of the SWCI language.
func hostCommands() []*Command {
	return append(append(append(append(localCommands(), benchCommands()...), certCommands()...), policyCommands()...), newCommand(), stopCommand(), collectCommand(), helpCommand(), versionCommand())
}
