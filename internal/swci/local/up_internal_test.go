package local

import "testing"

func TestSaidOfSWOPs(t *testing.T) {
	const want = "swarm is up; tasks of defaulttaskbb.taskdb.sml.hpe are carried out by 1 SWOP, with 2 peers in all; a task's PrivateContent is my model; end with Ctrl-C\n" +
		"next: swarmctl create task from FILE, swarmctl finalize task NAME, swarmctl assign task NAME to defaulttaskbb.taskdb.sml.hpe with all peers; swarmctl get logs NAME shows what it prints\n"
	if got := saidOfSWOPs(UpConfig{SWOPs: 1, Peers: 2, Private: "my model"}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
