//! The agent waits for a person: permissions and questions.

use super::tag::Tag;
use super::tool;
use agent_client_protocol_schema::v1::{
    CreateElicitationRequest, ElicitationFormMode, ElicitationSchema, ElicitationSessionScope, EnumOption,
    MultiSelectPropertySchema, PermissionOption, PermissionOptionKind, RequestPermissionRequest,
    StringPropertySchema, ToolCallUpdate,
};
use turnstream_model::event::{ApprovalOption, OptionKind, Question as Asked, Tool};
use turnstream_model::id::{ApprovalId, ItemId, QuestionId};

/// An agent asks for a permission.
#[derive(Clone, Debug, PartialEq)]
pub struct Permission {
    /// The approval that an answer settles.
    pub approval: ApprovalId,
    /// The call it is for.
    pub tool_call: ToolCallUpdate,
    /// What may be answered; never empty.
    pub options: Vec<PermissionOption>,
    /// Whether the agent offered the options. Otherwise they are ours, and the agent does not know their ids.
    pub is_offered_by_agent: bool,
    /// Whose call it is.
    pub tag: Tag,
}

/// An agent asks a person something.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The question that an answer settles.
    pub question: QuestionId,
    /// The call that asks.
    pub item: Option<ItemId>,
    /// What is asked.
    pub questions: Vec<Asked>,
}

impl Permission {
    pub(super) fn new(
        approval: &ApprovalId,
        item: Option<&ItemId>,
        tool: Option<&Tool>,
        options: &[ApprovalOption],
        tag: Tag,
    ) -> Self {
        // An ask can come without a call (Codex never shows the call of a refused one), but ACP requires an
        // id.
        let id = item.map_or(approval.as_str(), ItemId::as_str).to_owned();
        let mut fields = tool.map(tool::fields).unwrap_or_default();
        if item.is_none() && fields.title.is_none() {
            // This call was never announced, so a client has nothing to show without a title.
            fields.title = Some(fields.name.clone().unwrap_or_else(|| "Permission".to_owned()));
        }
        let is_offered_by_agent = !options.is_empty();
        let options =
            if options.is_empty() { default_options() } else { options.iter().map(option).collect() };
        let tool_call = ToolCallUpdate::new(id, fields);
        Self { approval: approval.clone(), tool_call, options, is_offered_by_agent, tag }
    }

    /// The protocol's own request.
    pub fn to_request(&self, session: &str) -> RequestPermissionRequest {
        let (tool_call, options) = (self.tool_call.clone(), self.options.clone());
        RequestPermissionRequest::new(session.to_owned(), tool_call, options).meta(self.tag.to_meta())
    }
}

/// The options for agents that offer none. The id of an option is its outcome.
fn default_options() -> Vec<PermissionOption> {
    let option = |id: &str, name: &str, kind| PermissionOption::new(id.to_owned(), name, kind);
    vec![
        option("allow_once", "Allow once", PermissionOptionKind::AllowOnce),
        option("allow_always", "Always allow", PermissionOptionKind::AllowAlways),
        option("reject", "Reject", PermissionOptionKind::RejectOnce),
    ]
}

fn option(option: &ApprovalOption) -> PermissionOption {
    let kind = match option.kind {
        OptionKind::AllowOnce => PermissionOptionKind::AllowOnce,
        OptionKind::AllowAlways => PermissionOptionKind::AllowAlways,
        OptionKind::RejectOnce => PermissionOptionKind::RejectOnce,
        OptionKind::RejectAlways => PermissionOptionKind::RejectAlways,
    };
    PermissionOption::new(option.id.clone(), option.name.clone(), kind)
}

impl Question {
    /// The questions as one form, for clients that announced `elicitation.form`. Each question is a
    /// property, named by its id. If other answers are allowed, `ID.other` takes them.
    pub fn to_elicitation(&self, session: &str) -> CreateElicitationRequest {
        let mut form = ElicitationSchema::new();
        for asked in &self.questions {
            let choices = || -> Vec<EnumOption> { asked.options.iter().map(choice).collect() };
            form = if asked.options.is_empty() {
                form.property(asked.id.clone(), StringPropertySchema::new().title(asked.text.clone()), true)
            } else if asked.multiple {
                let property = MultiSelectPropertySchema::titled(choices()).title(asked.text.clone());
                form.property(asked.id.clone(), property, !asked.custom)
            } else {
                let property = StringPropertySchema::new().one_of(choices()).title(asked.text.clone());
                form.property(asked.id.clone(), property, !asked.custom)
            };
            if asked.custom && !asked.options.is_empty() {
                let other = StringPropertySchema::new().title(format!("{} (other)", asked.text));
                form = form.property(format!("{}.other", asked.id), other, false);
            }
        }
        let message = match self.questions.as_slice() {
            [only] => only.text.clone(),
            several => format!("The agent has {} questions.", several.len()),
        };
        let call = self.item.as_ref().map(|item| item.as_str().to_owned().into());
        let scope = ElicitationSessionScope::new(session.to_owned()).tool_call_id(call);
        CreateElicitationRequest::new(ElicitationFormMode::new(scope, form), message)
    }
}

fn choice(choice: &turnstream_model::event::Choice) -> EnumOption {
    let description = choice.extra.get("description").and_then(|text| text.as_str()).map(str::to_owned);
    EnumOption::new(choice.label.clone(), choice.label.clone()).description(description)
}
