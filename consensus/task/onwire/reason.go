package onwire

import (
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/text"
)

// KeptReason makes the reason that an operator gave fit to be shown and kept. The ledger has it in this form, beside the request that was signed, so
// it never becomes another.
func KeptReason(given string) string {
	return state.Clip(text.Printable(text.Cut(given, task.MaxText), ' '), task.MaxText)
}
