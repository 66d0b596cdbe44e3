"""The capacity review: one document from weeks of history. Needs the extra `report`."""
