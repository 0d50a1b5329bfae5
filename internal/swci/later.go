package swci

import (
	"slices"
	"strings"
)

// laterWords are those that the original's commands of later releases have and no command here, with what they are about.
var laterWords = map[string]string{
	"task": "tasks", "tasks": "tasks",
	"taskrunner": "task runners", "taskrunners": "task runners",
}

// later says what a command of the original is about that is still to come; "" for other words.
func later(words []string) string {
	var typed []string
	for _, w := range words[:min(len(words), 3)] {
		typed = append(typed, strings.ToLower(w))
	}
	switch {
	case len(typed) == 0:
	case len(typed) == 3 && typed[0] == "wait" && typed[1] == "for":
		return laterWords[typed[2]]
	case len(typed) > 1 && slices.Contains([]string{"create", "append", "finalize", "delete", "get", "list", "assign", "reset"}, typed[0]):
		return laterWords[typed[1]]
	}
	return ""
}
