-- If many schedules are due, they are run tenant by tenant.
CREATE INDEX schedules_by_tenant ON schedules (tenant_id, due_at, page_id, action);
