package swci

import "strings"

// later says what a command of the original is about that is still to come; "" for other words.
func later(words []string) string {
	var typed []string
	for _, w := range words[:min(len(words), 3)] {
		typed = append(typed, strings.ToLower(w))
	}
	line := strings.Join(typed, " ") + " "
	for _, begin := range []string{"assign task ", "reset taskrunner ", "get taskrunner ", "list taskrunner ", "wait for taskrunner "} {
		if strings.HasPrefix(line, begin) {
			return "assignments of tasks"
		}
	}
	return ""
}
