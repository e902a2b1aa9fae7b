package erasures

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file deletes details of audit rows, and rules of moves.

var redactRows = engine.NewBatch(`UPDATE audit SET detail = NULL, salt = NULL FROM batch
	WHERE audit.tenant_id = batch.tenant_id AND audit.number = batch.number`, "tenant_id bytea", "number bigint")

// FindDetails calls each with columns of audit rows about a subject whose details an erasure deletes, by
// number, after a number. It reads at most limit rows.
func FindDetails(query kernel.QueryFunc, tenant atrium.TenantID, columns, subject string, after, limit int64, each func(engine.Row) error) error {
	return query("SELECT "+columns+` FROM audit WHERE tenant_id = $1 AND subject = $2 AND number > $3
			AND action NOT IN ($4, $5, $6) AND detail IS NOT NULL ORDER BY number LIMIT $7`,
		engine.Args{kernel.IDArg(tenant), subject, after, atrium.ActionEraseAccount, atrium.ActionDeleteProspect, atrium.ActionErasureRedact, limit}, each)
}

// findDetailRows returns rows for redactRows: audit rows about a subject, after a number, that
// still have details. It returns at most redactBatchRows.
func (s *Store) findDetailRows(ctx context.Context, tenant atrium.TenantID, subject string, after int64) (rows []engine.Args, err error) {
	err = FindDetails(s.db.OutsideTx(ctx), tenant, "number", subject, after, redactBatchRows, func(r engine.Row) error {
		rows = append(rows, engine.Args{kernel.IDArg(tenant), r.Int(0)})
		return nil
	})
	return rows, err
}

// redactAccountBatch deletes the details of a batch of audit rows about the account and returns
// how many it redacted. The erasure itself has already recorded the redaction.
func (s *Store) redactAccountBatch(ctx context.Context, e *erasure) (int, error) {
	rows, err := s.findDetailRows(ctx, e.change.TenantID, string(e.account), e.number)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	if err := kernel.WriteLarge(ctx, s.db, e.change, func(tx engine.Tx) error {
		_, err := tx.Batch(redactRows, rows, nil)
		return err
	}); err != nil {
		return 0, err
	}
	e.number = rows[len(rows)-1][1].(int64)
	return len(rows), nil
}

// deleteRuleBatch deletes the rules of a batch of moves to the account, redacts the audit rows
// about these moves, and records the redaction. It returns the number of moves.
func (s *Store) deleteRuleBatch(ctx context.Context, e *erasure) (n int, err error) {
	tenant := kernel.IDArg(e.change.TenantID)
	after := e.move
	if after == nil {
		after = []byte{}
	}
	var moves []engine.Args
	var names []string
	bytes := 0
	// The subquery reads only the index: with another column, SQLite scans all moves.
	err = s.db.Query(ctx, `SELECT m.move_id, octet_length(m.rule) FROM moves i JOIN moves m ON m.tenant_id = i.tenant_id AND m.move_id = i.move_id
		WHERE i.tenant_id = $1 AND i.to_account_id = $2 AND i.move_id > $3 AND m.rule IS NOT NULL ORDER BY i.move_id LIMIT $4`,
		engine.Args{tenant, kernel.IDArg(e.account), after, int64(redactBatchRows)}, func(r engine.Row) error {
			if bytes += int(r.Int(1)); bytes > eraseBatchBytes && len(moves) > 0 {
				return nil // left for the next transaction
			}
			moves = append(moves, engine.Args{tenant, r.Bytes(0)})
			names = append(names, string(kernel.IDAt[atrium.MoveID](r, 0)))
			return nil
		})
	if err != nil || len(moves) == 0 {
		return 0, err
	}
	c := e.change
	c.IdempotencyKey = ""
	_, _, err = kernel.MutateLarge(ctx, s.db, c, func(tx *kernel.Mutation) (none struct{}, err error) {
		for _, id := range names { // a move has at most two rows: created and undone
			if err := tx.Redact(id); err != nil {
				return none, err
			}
		}
		tx.RecordSilently(atrium.ActionEraseAccount, string(e.account), map[string]any{"redacted": names})
		_, err = tx.Batch(deleteRules, moves, nil)
		return none, err
	})
	if err == nil {
		e.move = moves[len(moves)-1][1].([]byte)
	}
	return len(moves), err
}

var deleteRules = engine.NewBatch(`UPDATE moves SET rule = NULL FROM batch
	WHERE moves.tenant_id = batch.tenant_id AND moves.move_id = batch.move_id`, "tenant_id bytea", "move_id bytea")

var redactMoveRows = engine.NewBatch(`UPDATE audit SET detail = NULL, salt = NULL FROM batch
	WHERE audit.tenant_id = batch.tenant_id AND audit.subject = batch.subject AND audit.detail IS NOT NULL`, "tenant_id bytea", "subject text")

var findRules = engine.NewBatch(`SELECT m.move_id FROM batch JOIN moves m
	ON m.tenant_id = batch.tenant_id AND m.move_id = batch.move_id AND m.rule IS NOT NULL`, "tenant_id bytea", "move_id bytea")

// redactMoves deletes the rules of moves, and the audit details about them, and records it under subject.
func redactMoves(tx *kernel.Mutation, subject string, moves []atrium.MoveID) error {
	tenant := kernel.IDArg(tx.Change.TenantID)
	var rows []engine.Args
	for _, id := range slices.Compact(slices.Sorted(slices.Values(moves))) {
		rows = append(rows, engine.Args{tenant, kernel.IDArg(id)})
	}
	var names []string
	if _, err := tx.Batch(findRules, rows, func(r engine.Row) error {
		names = append(names, string(kernel.IDAt[atrium.MoveID](r, 0)))
		return nil
	}); err != nil || len(names) == 0 {
		return err
	}
	slices.Sort(names)
	ruled, subjects := make([]engine.Args, len(names)), make([]engine.Args, len(names))
	for i, id := range names {
		ruled[i], subjects[i] = engine.Args{tenant, kernel.IDArg(atrium.MoveID(id))}, engine.Args{tenant, id}
	}
	if _, err := tx.Batch(redactMoveRows, subjects, nil); err != nil {
		return err
	}
	if _, err := tx.Batch(deleteRules, ruled, nil); err != nil {
		return err
	}
	tx.RecordDetail(atrium.ActionErasureRedact, subject, map[string]any{"redacted": names})
	return nil
}

var readRules = engine.NewBatch(`SELECT m.move_id, m.rule FROM batch JOIN moves m
	ON m.tenant_id = batch.tenant_id AND m.move_id = batch.move_id`, "tenant_id bytea", "move_id bytea")

// FindRules returns moves whose rule contains a value of the erasure's rule, and those with a rule for
// which include returns true, by identifier, after a position, nil for the first. include may be nil. It
// reads at most jobMoves moves and jobRuleBytes of their rules, or one, so it may find none before the end,
// where next is nil.
func FindRules(tx engine.Tx, tenant atrium.TenantID, rule *atrium.ErasureRule, include func(atrium.MoveID) bool, after *atrium.Position,
) (moves []atrium.MoveID, next *atrium.Position, err error) {
	values, start := valuesOf(rule), []byte{}
	if after != nil {
		start = kernel.PackID(after.ID)
	}
	var rows []engine.Args
	bytes, n := 0, 0
	if err := tx.Query("SELECT move_id, COALESCE(octet_length(rule), 0) FROM moves WHERE tenant_id = $1 AND move_id > $2 ORDER BY move_id LIMIT $3",
		engine.Args{kernel.IDArg(tenant), start, int64(jobMoves)}, func(r engine.Row) error {
			if bytes += int(r.Int(1)); bytes > jobRuleBytes && n > 0 {
				return kernel.ErrPageFull
			}
			id := kernel.IDAt[atrium.MoveID](r, 0)
			if n++; r.Int(1) > 0 {
				rows = append(rows, engine.Args{kernel.IDArg(tenant), kernel.IDArg(id)})
			}
			next = atrium.PositionAt(0, id)
			return nil
		}); err != nil && !errors.Is(err, kernel.ErrPageFull) {
		return nil, nil, err
	}
	if n < jobMoves && bytes <= jobRuleBytes {
		next = nil
	}
	_, err = tx.Batch(readRules, rows, func(r engine.Row) error {
		if id := kernel.IDAt[atrium.MoveID](r, 0); include != nil && include(id) || values.in(r.View(1)) {
			moves = append(moves, id)
		}
		return nil
	})
	slices.Sort(moves)
	return moves, next, err
}

// eraseRules deletes the rules of a batch of moves that contain a value of the rule.
func (s *Store) eraseRules(ctx context.Context, j *job) error {
	var moves []atrium.MoveID
	var next *atrium.Position
	if err := s.search(ctx, func(tx engine.Tx) (err error) {
		moves, next, err = FindRules(tx, j.TenantID, &j.rule, nil, j.after)
		return err
	}); err != nil {
		return err
	}
	return s.inJob(ctx, j, func(tx *kernel.Mutation) error {
		if err := redactMoves(tx, string(j.ID), moves); err != nil {
			return err
		}
		return j.advance(tx, next, erasedCounts{})
	})
}

// ruleValues are the values of an erasure's rule that can identify a person, in canonical form.
type ruleValues struct {
	texts  map[string]bool
	part   string // of a text; "" for none
	domain string // "" for none
	number []byte // nil for none
}

func valuesOf(rule *atrium.ErasureRule) (v ruleValues) {
	v.texts, v.part = map[string]bool{}, canonical.Name(rule.TextContains)
	for _, text := range []string{rule.Text, rule.ClaimedName, rule.ClaimedDomain, rule.ProspectEmail} {
		v.texts[canonical.Name(text)] = true
	}
	if rule.ClaimedDomain != "" {
		v.domain = canonical.Domain(rule.ClaimedDomain)
	}
	switch value := jsontext.Value(rule.Equals); value.Kind() {
	case '"':
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			v.texts[canonical.Name(string(text))] = true
		}
	case '0':
		v.number, _ = canonical.Value(value) // as it was when the erasure was created
	}
	delete(v.texts, "")
	return v
}

// in reports whether the rule of a move, a JSON object, has one of the values, in any spelling.
func (v *ruleValues) in(rule []byte) bool {
	if canonical.HasText(rule, v.texts) || v.part != "" && canonical.ContainsText(rule, v.part) {
		return true
	}
	var given struct {
		ClaimedDomain string `json:"claimedDomain"`
		Payload       struct {
			Equals jsontext.Value `json:"equals"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(rule, &given); err != nil {
		return false
	}
	if v.domain != "" && canonical.Domain(given.ClaimedDomain) == v.domain {
		return true
	}
	if v.number == nil || given.Payload.Equals.Kind() != '0' {
		return false
	}
	number, err := canonical.Value(given.Payload.Equals)
	return err == nil && bytes.Equal(number, v.number)
}
