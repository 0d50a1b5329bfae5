package spire

import (
	"log/slog"
	"testing"
)

// TestWhatIsSaidElsewhere: of an agent that is up errors are passed on, but not of what it gave up itself as it ended.
func TestWhatIsSaidElsewhere(t *testing.T) {
	for text, said := range map[string]bool{
		"failed to fetch bundle: rpc error: code = Canceled desc = context canceled": true,
		"failed to fetch bundle: rpc error: code = Unavailable desc = no route":      false,
		"context canceled": false,
	} {
		a := &agentState{setup: &agentSetup{}, up: true}
		if got := a.heard("Synchronize failed", slog.LevelError, map[string]string{"error": text}); got != said {
			t.Errorf("%s: said elsewhere: %v", text, got)
		}
	}
	a := &agentState{setup: &agentSetup{}, up: true}
	plugin := map[string]string{"error": "signal: terminated"}
	if a.heard("plugin process exited", slog.LevelError, plugin) {
		t.Error("a plugin that was killed is not told of")
	}
	a.setProblem("") // the agent is asked to end
	if !a.heard("plugin process exited", slog.LevelError, plugin) {
		t.Error("a plugin that ends with its agent is told of as an error")
	}
}
