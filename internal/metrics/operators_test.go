package metrics_test

import (
	"testing"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/metrics"
)

// openOperators serves the metrics of a dashboard, and those of web mode.
func openOperators(t *testing.T) (dashboard, web string) {
	t.Helper()
	board, dashboard := openOther(t, identity.RoleSWCI, nil)
	board.Dashboard(func() metrics.Board {
		return metrics.Board{Live: true, Streams: 3, Logs: 1, Asked: map[string]uint64{"contract": 7, "nodes": 9}, Failed: map[string]uint64{"contract": 2}}
	})
	programs, web := openOther(t, identity.RoleSWCI, nil)
	programs.Web(func() metrics.Programs { return metrics.Programs{Requests: 2, Done: 5, Failed: 1, Refused: 4} })
	return dashboard, web
}

// TestOperators: what acts for operators tells how much it does, also of what never failed.
func TestOperators(t *testing.T) {
	dashboard, web := openOperators(t)
	body := read(t, dashboard)
	has(t, body, "swarmd_dashboard_live 1", `swarmd_dashboard_streams{kind="page"} 3`, `swarmd_dashboard_streams{kind="log"} 1`, `swarmd_dashboard_documents_total{document="contract"} 7`,
		`swarmd_dashboard_documents_failed_total{document="contract"} 2`, `swarmd_dashboard_documents_failed_total{document="nodes"} 0`)
	promtool(t, body)
	body = read(t, web)
	has(t, body, "swarmd_web_requests 2", `swarmd_web_commands_total{outcome="done"} 5`, `swarmd_web_commands_total{outcome="failed"} 1`, "swarmd_web_refused_total 4")
	promtool(t, body)
}
