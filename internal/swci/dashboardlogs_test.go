package swci_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestDashboardFollowsLogs: a page is shown what `get logs -f` reads, of one node or of one member of a job; a host that refuses has the same words.
func TestDashboardFollowsLogs(t *testing.T) {
	base, c := openDashboard(t, &logsAPI{files: map[string]bool{"h-1": true}})
	const end = "event: end\ndata: {\"said\":\"nothing else will be printed there\"}\n\n"
	for path, want := range map[string]string{
		"h-0":                      `"host":"h-0","from":"","text":"ready"}]` + "\n\n" + end,
		"h-1":                      `"host":"h-1","from":"","text":"ready"}]` + "\n\n" + end, // of its file server
		"grid?host=h-0&member=a/0": "event: lines\ndata: [{\"host\":\"h-0\",\"from\":\"a/0\",\"text\":\"loss 1\"}]\n\n" + end,
		"grid?host=h-0&member=b/1": "event: lines\ndata: [{\"host\":\"h-0\",\"from\":\"b/1\",\"text\":\"of 14\"}]\n\n" + end,
		"grid?host=h-1&member=b/1": `{"error":"get logs grid: nothing of it is on h-1 now","remedy":"reload the page, or use: swarmctl get logs grid -f"}`,
		"train":                    `{"error":"get logs train: a page follows one host, and it is on several",`,
		"x":                        `{"error":"get logs x: no node is called x, and no task or job of that name was assigned",`,
		"h-2":                      `{"error":"get logs h-2: h-2 hands out no log: logs of this host do not go to spiffe://a.example/swarm/swci"`,
	} {
		if got := askDashboard(t, c, http.MethodGet, base+"api/logs/"+path, ""); !strings.HasPrefix(got, ": asked\n\n") || !strings.Contains(got, want) || !strings.HasSuffix(got, "}\n\n") {
			t.Errorf("%s: %s", path, got)
		}
	}
}
