"""The Textual app: the pod screen, the run screen, their dialogs and widgets."""
