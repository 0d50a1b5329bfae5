package work

import (
	"context"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
)

// adopt goes on with what there is of a member from before this process. What only was prepared is prepared again.
func (h *Host) adopt(m *member, now time.Time) {
	found, sure := h.seen(m)
	switch {
	case found != nil && found.State != task.Prepared:
		m.due.looked = true
		m.take(told(h.cfg.Guard, m, found.Status))
	case sure || m.early(): // nothing has started of which the swarm does not know that it was prepared
		m.due.looked = true
		if q := m.hosted.Request; m.label.Epoch == 1 && m.want.State == task.Placed && q.ExpiresMS > 0 && now.UnixMilli() >= q.ExpiresMS {
			m.refuse("it expired before this host began it")
		}
	default:
		h.unseen(m, now)
	}
}

// judge asks the guard about what was adopted and runs, which goes on meanwhile: its owner's word may have changed since it began. It asks
// until there is an answer.
func judge(ctx context.Context, h *Host, m *member, now time.Time) {
	switch {
	case m.answer.May == Yes || m.over() || m.worker != nil || now.Before(m.due.judge):
		return
	case m.task == nil:
		h.fetch(ctx, m, now)
		return
	}
	hosted, t := m.hosted, m.task
	h.work(ctx, m, 0, func(ctx context.Context) func(time.Time) {
		answer := h.cfg.Guard.Stays(ctx, hosted, t)
		return func(now time.Time) {
			m.received(answer)
			switch answer.May {
			case Yes:
				m.answer = answer
			case NotYet:
				m.due.judge = now.Add(staysPause)
			default:
				m.exit(-1, answer.Why)
			}
		}
	})
}

// received has the member's time-out run from when its host has received the assignment, perhaps before it was restarted.
func (m *member) received(a Answer) {
	if !a.Since.IsZero() && a.Since.Before(m.due.began) {
		m.due.began = a.Since
	}
}
