-- Schedules that are due are run tenant by tenant when there are many.
CREATE INDEX schedules_by_tenant ON schedules (tenant_id, due_at, page_id, action);
